"""The stores of a node's tiers: every call to one goes through here, and its trouble is told."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from cachenode.catalog import Catalog
from cachenode.events import BlockLost, TierHealed, TierTroubled
from cachenode.store import BlockStore, CopyRead, CopyWrite
from hearthkv.core.block_io import ReadEnd
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.clock import Clock
from hearthkv.core.errors import (
    BlockLostError,
    StoreError,
    StoreFullError,
)
from hearthkv.core.tier import Tier
from hearthkv.telemetry import Telemetry

FULL_S: Final = 10.0
"""Seconds for which a store that said it is full is offered nothing."""


DOUBT_EVERY_S: Final = 1.0
"""Seconds between two doubts about one store. Without a pause, one that looks well and fails its
calls all the same would be looked at, healed, tried and doubted as fast as the machine can."""


class TierStores:
    """
    Performs what the catalog plans, and turns a store's errors into outcomes and troubles.

    A tier in trouble is neither read nor written; one that is full is read on.
    """

    def __init__(
        self,
        catalog: Catalog,
        stores: Mapping[Tier, BlockStore],
        *,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self.by_tier = stores
        self.work = asyncio.Event()
        """Set when there may be something to erase or to move."""

        self.doubt = asyncio.Event()
        """Set when a store should be looked at before the next second is over."""

        self._catalog = catalog
        self._clock = clock
        self._telemetry = telemetry
        self._full_until_s: dict[Tier, float] = {}
        self._doubted_s: dict[Tier, float] = {}

    async def fetch(self, tier: Tier, reads: Sequence[CopyRead]) -> list[ReadEnd | None]:
        """
        Read copies that lie in one tier; what is lost is dropped from the catalog.

        Returns:
            For each None where its bytes are in place, else LOST or UNAVAILABLE.
        """
        outcomes = await self.by_tier[tier].get(reads)
        return [
            None if outcome is None else self._end(read.ref, outcome)
            for read, outcome in zip(reads, outcomes, strict=True)
        ]

    async def store(self, tier: Tier, writes: Sequence[CopyWrite]) -> list[bool]:
        """Write copies to one tier, and return for each whether it is stored."""
        outcomes = await self.by_tier[tier].put(writes)
        for outcome in outcomes:
            if outcome is not None:
                self.note(tier, outcome)
        return [outcome is None for outcome in outcomes]

    async def erase(self, tier: Tier, refs: Sequence[BlockRef]) -> bool:
        """Erase copies and return whether they are gone. Never raises a StoreError."""
        try:
            await self.by_tier[tier].erase(refs)
        except StoreError as error:
            self.note(tier, error)
            return False
        return True

    def note(self, tier: Tier, error: StoreError) -> None:
        """Keep the node off a store that failed, until it was looked at."""
        if isinstance(error, StoreFullError):
            if tier not in self._full_until_s:
                self._telemetry.emit(TierTroubled(tier, str(error)))
            self._full_until_s[tier] = self._clock.now() + FULL_S
            self._catalog.set_full(tier, str(error))
        else:
            self.trouble(tier, str(error))
            self._doubt(tier)

    def trouble(self, tier: Tier, text: str) -> None:
        """Keep the node off a store."""
        if text != self._catalog.trouble(tier):
            self._telemetry.emit(TierTroubled(tier, text))
            self._catalog.set_trouble(tier, text)

    def heal(self, tier: Tier) -> None:
        """Let the node use a store again."""
        is_healed = bool(self._catalog.trouble(tier))
        self._catalog.set_trouble(tier, "")
        full_until_s = self._full_until_s.get(tier)
        if full_until_s is not None and self._clock.now() >= full_until_s:
            del self._full_until_s[tier]
            self._catalog.set_full(tier, "")
            is_healed = True
        if is_healed:
            self._telemetry.emit(TierHealed(tier))
            self.work.set()

    def _end(self, ref: BlockRef, error: StoreError) -> ReadEnd:
        if isinstance(error, BlockLostError):
            self._lose(ref, str(error))
            return ReadEnd.LOST
        self.note(ref.tier, error)
        return ReadEnd.UNAVAILABLE

    def _lose(self, ref: BlockRef, reason: str) -> None:
        blocks = self._catalog.lose(ref)
        if blocks:
            self._telemetry.emit(BlockLost(ref.tier, ref.key.hex(), reason, blocks))
            self.work.set()
            self._doubt(ref.tier)  # perhaps the whole store was emptied

    def _doubt(self, tier: Tier) -> None:
        now_s = self._clock.now()
        doubted_s = self._doubted_s.get(tier)
        if doubted_s is None or now_s - doubted_s >= DOUBT_EVERY_S:
            self._doubted_s[tier] = now_s
            self.doubt.set()
