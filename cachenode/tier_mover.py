"""The background work of a node: erase what must go, move blocks down, lift blocks up."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from cachenode.catalog import Catalog
from cachenode.events import BlockMoved, BlocksEvicted
from cachenode.plans import Move
from cachenode.store import CopyRead, CopyWrite
from cachenode.tier_stores import TierStores
from hearthkv.core.block_frame import frame_of
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.tier import Tier
from hearthkv.telemetry import Telemetry

UNDER_WAY_MAX: Final = 2
"""Moves at once. Few, because the reads and writes of engines want the same stores."""


class TierMover:
    """Carries out what the catalog wants done, whenever something may be to do."""

    def __init__(self, catalog: Catalog, stores: TierStores, telemetry: Telemetry) -> None:
        self._catalog = catalog
        self._stores = stores
        self._telemetry = telemetry

    async def run(self) -> None:
        """Work for ever; wakes when `stores.work` is set."""
        while True:
            await self._stores.work.wait()
            self._stores.work.clear()
            await self.work()

    async def work(self) -> None:
        """Work until nothing is left that can be done now."""
        while await self._erase() or await self._demote() or await self._promote():
            pass

    async def _erase(self) -> bool:
        refs: dict[Tier, list[BlockRef]] = defaultdict(list)
        for ref in self._catalog.plan_erasures():
            refs[ref.tier].append(ref)
        has_erased = False
        for tier, condemned in refs.items():
            if await self._stores.erase(tier, condemned):
                self._catalog.commit_erase(condemned)
                has_erased = True
            else:
                self._catalog.abort_erase(condemned)
        # What could not be erased is tried again when the work is next woken, and not before.
        return has_erased

    async def _demote(self) -> bool:
        demotions = self._catalog.plan_demotions()
        if demotions.evicted_blocks:
            self._telemetry.emit(BlocksEvicted(demotions.evicted_blocks))
        await self._move_all(demotions.moves)
        return bool(demotions)

    async def _promote(self) -> bool:
        moves = self._catalog.plan_promotions()
        await self._move_all(moves)
        return bool(moves)

    async def _move_all(self, moves: Sequence[Move]) -> None:
        for at in range(0, len(moves), UNDER_WAY_MAX):
            async with asyncio.TaskGroup() as tasks:
                for move in moves[at : at + UNDER_WAY_MAX]:
                    tasks.create_task(self._move(move))

    async def _move(self, move: Move) -> None:
        if await self._copy(move):
            if self._catalog.commit_move(move):
                self._telemetry.emit(BlockMoved(move.source.tier, move.target.tier))
        else:
            self._catalog.abort_move(move)

    async def _copy(self, move: Move) -> bool:
        source, target = move.source, move.target
        spec = self._catalog.spec_of(source.namespace_id)
        if spec is None:
            return False
        payload = memoryview(bytearray(source.size_bytes))
        (end,) = await self._stores.fetch(source.tier, [CopyRead(source, payload)])
        if end is not None:
            return False
        write = CopyWrite(frame_of(spec, target), payload)
        (is_stored,) = await self._stores.store(target.tier, [write])
        return is_stored
