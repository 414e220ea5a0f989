"""Addresses of the form host:port. Pure."""

import re

from hearthkv.core.errors import StartupError


def split_address(address: str) -> tuple[str, int]:
    """
    Return host and port of host:port; brackets around an IPv6 host are taken off.

    Raises:
        StartupError: If there is no host, or no port in 0..65535.
    """
    host, _, port_text = address.rpartition(":")
    if not host or not re.fullmatch(r"[0-9]{1,5}", port_text) or int(port_text) > 65_535:
        raise StartupError(f"address is {address!r}, must be host:port with a port in 0..65535")
    return host.removeprefix("[").removesuffix("]"), int(port_text)
