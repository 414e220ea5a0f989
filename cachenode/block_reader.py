"""The read beat: from a plan to the bytes of its blocks, a few of them ahead."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import islice
from typing import Final

from cachenode.catalog import Catalog
from cachenode.events import BlockRead, BlocksAsked
from cachenode.hit_counts import HitCounts
from cachenode.store import CopyRead
from cachenode.tier_stores import TierStores
from hearthkv.codec.block import chunks_of
from hearthkv.core.block_io import BlockHeader, ReadEnd, ReadQuery, ReadStep
from hearthkv.core.block_ref import BlockRef
from hearthkv.telemetry import Telemetry

AHEAD_MAX: Final = 4
"""Blocks that one read keeps under way: more of them slow Redis down and cost memory."""


class BlockReader:
    """
    Reads the longest held run of blocks.

    Args:
        tasks: Owns the reads that are under way.
        ahead: Blocks under way at once; 1 reads one after the other.
        hits: Is told what was asked for and found.
    """

    def __init__(
        self,
        catalog: Catalog,
        stores: TierStores,
        *,
        tasks: asyncio.TaskGroup,
        ahead: int,
        hits: HitCounts,
        telemetry: Telemetry,
    ) -> None:
        self._catalog = catalog
        self._stores = stores
        self._tasks = tasks
        self._ahead = ahead
        self._telemetry = telemetry
        self._hits = hits

    async def read(self, query: ReadQuery) -> AsyncGenerator[ReadStep, None]:
        """Give the blocks in order, cut into chunks, and last the reason for the end (I5)."""
        plan = self._catalog.plan_read(query.namespace_id, query.keys, query.session_id)
        self._hits.asked(len(query.keys))
        self._telemetry.emit(BlocksAsked(len(query.keys), len(plan.refs)))
        try:
            async with aclosing(self._fetched(plan.refs)) as blocks:
                async for ref, fetched in blocks:
                    if isinstance(fetched, ReadEnd):
                        yield fetched
                        return
                    self._count(ref)
                    header = BlockHeader(
                        ref.key, ref.parent_key, ref.size_bytes, ref.checksum, ref.tier
                    )
                    for chunk in chunks_of(header, fetched):
                        yield (chunk,)
            yield plan.end
        finally:
            self._catalog.finish_read(plan)
            self._stores.work.set()

    def _count(self, ref: BlockRef) -> None:
        self._hits.found(ref.tier)
        self._telemetry.emit(BlockRead(ref.tier, ref.size_bytes))

    async def _fetched(
        self, refs: tuple[BlockRef, ...]
    ) -> AsyncGenerator[tuple[BlockRef, memoryview | ReadEnd], None]:
        """Give what was fetched in the order of `refs`, with `ahead` of them under way."""
        coming = iter(refs)
        under_way: deque[tuple[BlockRef, asyncio.Task[memoryview | ReadEnd]]] = deque()
        try:
            while True:
                for ref in islice(coming, self._ahead - len(under_way)):
                    task = self._tasks.create_task(self._fetch(ref))
                    under_way.append((ref, task))
                if not under_way:
                    return
                ref, task = under_way[0]
                fetched = await task
                under_way.popleft()
                yield ref, fetched
        finally:
            # A reader that leaves early takes its reads with it, before their copies may go.
            left = [task for _, task in under_way]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)

    async def _fetch(self, ref: BlockRef) -> memoryview | ReadEnd:
        into = memoryview(bytearray(ref.size_bytes))
        (end,) = await self._stores.fetch(ref.tier, [CopyRead(ref, into)])
        return into if end is None else end
