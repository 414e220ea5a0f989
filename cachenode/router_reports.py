"""A reporter for every router, however many stand behind the names that a node was given."""

import asyncio
from collections.abc import Callable
from typing import Final

from cachenode.reporter import Reporter
from hearthkv.client.router_names import RouterNames

RESOLVE_EVERY_S: Final = 2.0
"""How long a router that has come under a name waits until the node speaks to it."""


class RouterReports:
    """
    Keeps all routers informed.

    Args:
        names: The routers; a DNS name stands for all its addresses, whichever they are just now.
        new_reporter: Gives a reporter to an address.
    """

    def __init__(self, names: RouterNames, new_reporter: Callable[[str], Reporter]) -> None:
        self._names = names
        self._new_reporter = new_reporter
        self._reporting: dict[str, asyncio.Task[None]] = {}

    @property
    def addresses(self) -> list[str]:
        """Whom the node speaks to, or tries to."""
        return list(self._reporting)

    async def run(self) -> None:
        """Report for ever; who has lost the name is not spoken to any more."""
        async with asyncio.TaskGroup() as tasks:
            self._follow(self._names.last_addresses(), tasks)
            while not self._names.is_fixed:
                self._follow(await self._names.addresses(), tasks)
                await asyncio.sleep(RESOLVE_EVERY_S)

    def _follow(self, addresses: list[str], tasks: asyncio.TaskGroup) -> None:
        for address in self._reporting.keys() - set(addresses):
            self._reporting.pop(address).cancel()
        for address in addresses:
            if address not in self._reporting:
                reporter = self._new_reporter(address)
                self._reporting[address] = tasks.create_task(reporter.run())
