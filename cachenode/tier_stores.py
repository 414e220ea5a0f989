"""The stores of a node's tiers: every call to one goes through here, and its trouble is told."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from cachenode.catalog import Catalog
from cachenode.events import BlockLost, TierHealed, TierTroubled
from cachenode.store import BlockStore
from hearthkv.core.block_frame import frame_of
from hearthkv.core.block_io import ReadEnd
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.clock import Clock
from hearthkv.core.errors import (
    BlockLostError,
    StoreError,
    StoreFullError,
)
from hearthkv.core.namespace import NamespaceSpec
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

    async def fetch(self, ref: BlockRef) -> memoryview | ReadEnd:
        """Read a copy; what is lost is dropped from the catalog. Never raises a StoreError."""
        try:
            return await self.by_tier[ref.tier].get(ref)
        except BlockLostError as error:
            self._lose(ref, str(error))
            return ReadEnd.LOST
        except StoreError as error:
            self.note(ref.tier, error)
            return ReadEnd.UNAVAILABLE

    async def store(
        self, spec: NamespaceSpec, ref: BlockRef, payload: bytes | bytearray | memoryview
    ) -> bool:
        """Write a copy and return whether it is stored. Never raises a StoreError."""
        try:
            await self.by_tier[ref.tier].put(frame_of(spec, ref), payload)
        except StoreError as error:
            self.note(ref.tier, error)
            return False
        return True

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
