"""
The routers as they were named, and the addresses behind the names. Not pure.

A name may stand for several routers, as a DNS name does that has an address for each of them.
Its addresses are sorted, so that all clients ask the same router first: it knows their sessions.

A host that has addresses of IPv4 and of IPv6 is one router, to which a node has one stream. Nobody
can see which of them belong together, so a name that has both stands for those of IPv4.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the IP addresses of a host, for a port; raises OSError if there are none."""

ADDRESSES_MAX = 64
"""Addresses that are asked, over all names."""


async def resolve_host(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host, as the system knows them; raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class RouterNames:
    """
    Names of routers, checked by `check_address`.

    Args:
        names: host:port or unix:path, in the order in which to ask them.
        resolve: What knows the addresses of a host.
    """

    def __init__(self, names: Sequence[str], resolve: Resolve = resolve_host) -> None:
        self.is_fixed = all(map(_is_address, names))
        """Whether all names are addresses already, and stay what they are."""

        self._names = tuple(names)
        self._resolve = resolve
        self._last: dict[str, tuple[str, ...]] = {
            name: (name,) if _is_address(name) else () for name in names
        }

    def __len__(self) -> int:
        return len(self._names)

    def last_addresses(self) -> list[str]:
        """Return the addresses of all names as they were last; each once."""
        found = [address for name in self._names for address in self._last[name]]
        return list(dict.fromkeys(found))[:ADDRESSES_MAX]

    async def addresses(self) -> list[str]:
        """Return the addresses of all names; a name that can't be resolved has its last ones."""
        for name in self._names:
            if not _is_address(name):
                host, _, port = name.rpartition(":")
                try:
                    found = await self._resolve(host, int(port))
                except (OSError, UnicodeError):  # the latter for what no name can be
                    continue
                self._last[name] = tuple(
                    sorted({_joined(each, port) for each in _one_family(found)})
                )
        return self.last_addresses()


def _is_address(name: str) -> bool:
    if name.startswith("unix:"):
        return True
    host = name.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _one_family(addresses: Sequence[str]) -> Sequence[str]:
    return [address for address in addresses if ":" not in address] or addresses


def _joined(address: str, port: str) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
