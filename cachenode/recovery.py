"""Find the blocks again that the stores hold: when a node starts, and when a store comes back."""

import asyncio
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from cachenode.catalog import Catalog
from cachenode.events import CatalogRestored, StoreAdvised, TierForgotten, TierTroubled
from cachenode.plans import RecoveredBlock
from cachenode.store import BlockStore
from hearthkv.core.clock import Clock
from hearthkv.core.errors import StoreError
from hearthkv.core.tier import Tier
from hearthkv.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class _Found:
    """What one store holds."""

    blocks: list[RecoveredBlock]
    removed: int
    trouble: str = ""


class Recovery:
    """
    Fills the catalog from the stores (I4).

    Frames alone are read: a payload is checked when it is used, and not before. What has no
    ancestors is erased by the node's background work.
    """

    def __init__(
        self,
        catalog: Catalog,
        stores: Mapping[Tier, BlockStore],
        *,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._catalog = catalog
        self._stores = stores
        self._clock = clock
        self._telemetry = telemetry
        self._unscanned = set(stores)

    def is_due(self, tier: Tier) -> bool:
        """Whether a store was never scanned to its end since it last left."""
        return tier in self._unscanned

    async def restore_all(self) -> None:
        """Scan all stores of a node that starts; one that does not answer is in trouble."""
        started_s = self._clock.now()
        with _collector_at_rest():
            async with asyncio.TaskGroup() as tasks:
                scans = {
                    tier: tasks.create_task(self._look_and_scan(tier)) for tier in self._stores
                }
            found = {tier: scan.result() for tier, scan in scans.items()}
            for tier, in_tier in found.items():
                if in_tier.trouble:
                    self._catalog.set_trouble(tier, in_tier.trouble)
                    self._telemetry.emit(TierTroubled(tier, in_tier.trouble))
            self._restore(list(found.values()), started_s)

    async def readmit(self, tier: Tier) -> None:
        """
        Scan a store that came back.

        What is not there any more is forgotten with all that hangs on it. The tier is in trouble
        until the caller heals it, so that nothing is written behind the scan's back.

        Raises:
            StoreError: If the store leaves again; its tier stays in trouble.
        """
        started_s = self._clock.now()
        self._unscanned.add(tier)
        self._catalog.set_trouble(tier, "is being scanned")
        forgotten = self._catalog.forget_tier(tier)
        self._telemetry.emit(TierForgotten(tier, forgotten))
        with _collector_at_rest():
            self._restore([await self._scan(tier)], started_s)

    async def _look_and_scan(self, tier: Tier) -> _Found:
        look = await self._stores[tier].check()
        if look.advice:
            self._telemetry.emit(StoreAdvised(tier, look.advice))
        if look.trouble:
            return _Found([], 0, look.trouble)
        try:
            return await self._scan(tier)
        except StoreError as error:
            return _Found([], 0, str(error))

    async def _scan(self, tier: Tier) -> _Found:
        blocks: list[RecoveredBlock] = []
        removed = 0
        async for part in self._stores[tier].scan():
            blocks += [RecoveredBlock(frame.spec, frame.ref(tier)) for frame in part.frames]
            removed += part.removed
        self._unscanned.discard(tier)
        return _Found(blocks, removed)

    def _restore(self, found: list[_Found], started_s: float) -> None:
        restored = self._catalog.restore(block for in_tier in found for block in in_tier.blocks)
        self._telemetry.emit(
            CatalogRestored(
                blocks=restored.blocks,
                orphans=restored.orphans,
                duplicates=restored.duplicates,
                removed=sum(in_tier.removed for in_tier in found),
                took_s=self._clock.now() - started_s,
            )
        )


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """
    Make no search for garbage while nothing but records that stay are made, and none in them later.

    The searches go over all of them again and again, and took half of a recovery. Records are in no
    cycles once they are let go of, so nothing is lost when none is looked for.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()
