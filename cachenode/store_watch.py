"""The look at the stores once a second: who is away, who came back, who was emptied."""

import asyncio
from contextlib import suppress
from typing import Final

from cachenode.events import StoreAdvised
from cachenode.recovery import Recovery
from cachenode.tier_stores import TierStores
from hearthkv.core.errors import StoreError
from hearthkv.core.tier import Tier
from hearthkv.telemetry import Telemetry

LOOK_EVERY_S: Final = 1.0


class StoreWatch:
    """Keeps the node's picture of its stores true, so that it degrades and heals by itself."""

    def __init__(self, stores: TierStores, recovery: Recovery, telemetry: Telemetry) -> None:
        self._stores = stores
        self._recovery = recovery
        self._telemetry = telemetry

    async def run(self) -> None:
        """Look for ever: every second, and at once where a call left doubts."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._stores.doubt.wait()
            self._stores.doubt.clear()
            await self.look()

    async def look(self) -> None:
        """Look at every store once, each for itself: a slow one delays no other."""
        async with asyncio.TaskGroup() as tasks:
            for tier in self._stores.by_tier:
                tasks.create_task(self._look_at(tier))

    async def _look_at(self, tier: Tier) -> None:
        look = await self._stores.by_tier[tier].check()
        if look.advice:
            self._telemetry.emit(StoreAdvised(tier, look.advice))
        if look.trouble:
            self._stores.trouble(tier, look.trouble)
            return
        if not look.is_same or self._recovery.is_due(tier):
            try:
                await self._recovery.readmit(tier)
            except StoreError as error:
                self._stores.trouble(tier, str(error))
                return
        self._stores.heal(tier)
