"""Addresses of the form host:port. Pure."""

import re

from hearthkv.core.errors import BadRequestError, StartupError

_HOST_AND_PORT = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_PORT_MAX = 65_535


def split_address(address: str) -> tuple[str, int]:
    """
    Return host and port of host:port; brackets around an IPv6 host are taken off.

    Raises:
        StartupError: If there is no host, or no port in 0..65535.
    """
    host, _, port_text = address.rpartition(":")
    if not host or not re.fullmatch(r"[0-9]{1,5}", port_text) or int(port_text) > _PORT_MAX:
        raise StartupError(f"address is {address!r}, must be host:port with a port in 0..65535")
    return host.removeprefix("[").removesuffix("]"), int(port_text)


def check_host_port(text: str) -> str:
    """
    Return `text` as an address that a peer may name: a host and a port, and nothing else.

    Transports know other forms, such as paths of sockets: a peer must not choose those.

    Raises:
        BadRequestError: If it is not host:port, with an IPv6 host in brackets and a port in
            1..65535.
    """
    matched = _HOST_AND_PORT.fullmatch(text)
    if matched is None or not 1 <= int(matched[1]) <= _PORT_MAX:
        raise BadRequestError(
            f"address is {text[:300]!r}, must be host:port with a port in 1..{_PORT_MAX}"
        )
    return text
