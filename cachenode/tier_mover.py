"""The background work of a node: erase what must go, move blocks down, lift blocks up."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Final

from cachenode.buffer_pool import BufferPool
from cachenode.catalog import Catalog
from cachenode.events import BlocksEvicted, BlocksMoved
from cachenode.plans import Move
from cachenode.store import CopyRead, CopyWrite
from cachenode.tier_stores import TierStores
from hearthkv.core.block_frame import frame_of
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.tier import Tier
from hearthkv.telemetry import Telemetry

BATCH_BYTES: Final = 4 * 1024 * 1024
"""Payload bytes that move together."""

UNDER_WAY_MAX: Final = 2
"""Batches at once. Few, because the reads and writes of engines want the same stores."""


class TierMover:
    """Carries out what the catalog wants done, whenever something may be to do."""

    def __init__(self, catalog: Catalog, stores: TierStores, telemetry: Telemetry) -> None:
        self.moved_bytes = 0
        """Payload bytes that were copied from one tier to another since the start."""

        self._catalog = catalog
        self._stores = stores
        self._telemetry = telemetry
        self._pool = BufferPool(UNDER_WAY_MAX * BATCH_BYTES)

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
        batches = deque(batches_of(moves))
        while batches:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(UNDER_WAY_MAX, len(batches))):
                    tasks.create_task(self._move(batches.popleft()))

    async def _move(self, moves: Sequence[Move]) -> None:
        """Carry out moves of one namespace from one tier to another, by one call to each store."""
        lease = await self._pool.lend(sum(move.source.size_bytes for move in moves))
        try:
            copied = await self._copy(moves, lease.view)
        finally:
            lease.release()
        moved_blocks = 0
        for move, is_copied in zip(moves, copied, strict=True):
            if is_copied:
                self.moved_bytes += move.target.size_bytes
                moved_blocks += self._catalog.commit_move(move)
            else:
                self._catalog.abort_move(move)
        self._telemetry.emit(
            BlocksMoved(
                moves[0].source.tier,
                moves[0].target.tier,
                moved_blocks,
                sum(copied) * moves[0].source.size_bytes,
            )
        )

    async def _copy(self, moves: Sequence[Move], memory: memoryview) -> list[bool]:
        """Copy blocks through `memory`, and return for each whether it is in its target."""
        first = moves[0]
        copied = [False] * len(moves)
        spec = self._catalog.spec_of(first.source.namespace_id)
        size_bytes = first.source.size_bytes
        if spec is None or spec.block_bytes != size_bytes:
            return copied  # the namespace was dropped, and perhaps begun anew with other blocks
        views = [memory[at * size_bytes : (at + 1) * size_bytes] for at in range(len(moves))]
        ends = await self._stores.fetch(
            first.source.tier,
            [CopyRead(move.source, view) for move, view in zip(moves, views, strict=True)],
        )
        fetched = [at for at, end in enumerate(ends) if end is None]
        if fetched:
            writes = [CopyWrite(frame_of(spec, moves[at].target), views[at]) for at in fetched]
            stored = await self._stores.store(first.target.tier, writes)
            for at, is_stored in zip(fetched, stored, strict=True):
                copied[at] = is_stored
        return copied


def batches_of(moves: Sequence[Move]) -> Iterator[list[Move]]:
    """Gather neighbours of one namespace and direction, up to BATCH_BYTES of them."""
    batch: list[Move] = []
    for move in moves:
        is_full = (len(batch) + 1) * move.source.size_bytes > BATCH_BYTES
        if batch and (is_full or not _are_alike(batch[0], move)):
            yield batch
            batch = []
        batch.append(move)
    if batch:
        yield batch


def _are_alike(one: Move, other: Move) -> bool:
    return (
        one.source.namespace_id == other.source.namespace_id
        and one.source.tier is other.source.tier
        and one.target.tier is other.target.tier
    )
