"""The read beat: from a plan to the bytes of its blocks, a few windows of them ahead."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Final

from cachenode.buffer_pool import BufferPool, Lease
from cachenode.catalog import Catalog
from cachenode.events import BlocksAsked, BlocksRead
from cachenode.hit_counts import HitCounts
from cachenode.store import CopyRead
from cachenode.tier_stores import TierStores
from hearthkv.codec.block import chunks_of, messages_of
from hearthkv.core.block_io import (
    CHUNK_BYTES_MAX,
    BlockChunk,
    BlockHeader,
    ReadEnd,
    ReadQuery,
    ReadStep,
)
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.tier import Tier
from hearthkv.telemetry import Telemetry

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""Payload bytes that are read together: one call a store. Larger ones only make others wait."""

WINDOWS_MAX: Final = 3
"""Windows of one read that take memory at once: one is given out while two are read."""


class BlockReader:
    """
    Reads the longest held run of blocks.

    Args:
        tasks: Owns the reads that are under way.
        pool: What blocks are read into; bounds the bytes of all reads of the node together.
        is_parallel: Whether a read has several blocks, and both tiers, under way at once.
        hits: Is told what was asked for and found.
    """

    def __init__(
        self,
        catalog: Catalog,
        stores: TierStores,
        *,
        tasks: asyncio.TaskGroup,
        pool: BufferPool,
        is_parallel: bool,
        hits: HitCounts,
        telemetry: Telemetry,
    ) -> None:
        self._catalog = catalog
        self._stores = stores
        self._tasks = tasks
        self._pool = pool
        self._window_bytes = WINDOW_BYTES if is_parallel else 0
        self._windows_max = WINDOWS_MAX if is_parallel else 1
        self._telemetry = telemetry
        self._hits = hits

    async def read(self, query: ReadQuery) -> AsyncGenerator[ReadStep, None]:
        """
        Give the blocks in order, cut into chunks, and last the reason for the end (I5).

        The data of a step lie in memory that is used again: they are right until the next step
        is asked for, or the reader is closed, and no longer.
        """
        plan = self._catalog.plan_read(query.namespace_id, query.keys, query.session_id)
        self._hits.asked(len(query.keys))
        self._telemetry.emit(BlocksAsked(len(query.keys), len(plan.refs)))
        message_bytes = CHUNK_BYTES_MAX if query.takes_chunks else 0
        try:
            async with aclosing(self._filled(plan.refs)) as windows:
                async for window in windows:
                    whole = window.leading_blocks()
                    self._count(window.refs[:whole])
                    for message in messages_of(window.chunks(whole), message_bytes):
                        yield message
                    end = window.end
                    if end is not None:
                        yield end
                        return
            yield plan.end
        finally:
            self._catalog.finish_read(plan)
            self._stores.work.set()

    def _count(self, refs: Sequence[BlockRef]) -> None:
        for tier in Tier:
            blocks = sum(ref.tier is tier for ref in refs)
            if blocks:
                self._hits.found(tier, blocks)
                self._telemetry.emit(BlocksRead(tier, blocks, blocks * refs[0].size_bytes))

    async def _filled(self, refs: Sequence[BlockRef]) -> AsyncGenerator["_Window", None]:
        """Give windows in the order of `refs`, each as soon as its reads are done."""
        coming = deque(windows_of(refs, self._window_bytes))
        under_way: deque[_Window] = deque()
        try:
            while coming or under_way:
                await self._set_out(coming, under_way)
                await asyncio.wait({under_way[0].filling})
                yield under_way[0]
                under_way.popleft().lease.release()
        finally:
            # A reader that leaves early takes its reads with it, before their copies may go.
            for window in under_way:
                window.abandon()
            if under_way:
                await asyncio.wait({window.filling for window in under_way})

    async def _set_out(
        self, coming: "deque[Sequence[BlockRef]]", under_way: "deque[_Window]"
    ) -> None:
        """Begin to read what there is memory for; wait for memory only with empty hands."""
        while coming and len(under_way) < self._windows_max:
            size_bytes = len(coming[0]) * coming[0][0].size_bytes
            lease = (
                self._pool.try_lend(size_bytes) if under_way else await self._pool.lend(size_bytes)
            )
            if lease is None:
                return
            window = coming.popleft()
            filling = self._tasks.create_task(self._fill(window, lease.view))
            under_way.append(_Window(window, lease, filling))

    async def _fill(self, refs: Sequence[BlockRef], into: memoryview) -> list[ReadEnd | None]:
        """Read blocks one behind the other into memory, from all their tiers at once."""
        reads = [
            CopyRead(ref, into[at * ref.size_bytes : (at + 1) * ref.size_bytes])
            for at, ref in enumerate(refs)
        ]
        tiers = {ref.tier for ref in refs}
        if len(tiers) == 1:
            return await self._stores.fetch(tiers.pop(), reads)
        async with asyncio.TaskGroup() as fetches:
            by_tier = {
                tier: fetches.create_task(
                    self._stores.fetch(tier, [read for read in reads if read.ref.tier is tier])
                )
                for tier in tiers
            }
        ends = {tier: iter(fetch.result()) for tier, fetch in by_tier.items()}
        return [next(ends[ref.tier]) for ref in refs]


class _Window:
    """A run of blocks that is being read, or has been."""

    def __init__(
        self,
        refs: Sequence[BlockRef],
        lease: Lease,
        filling: "asyncio.Task[list[ReadEnd | None]]",
    ) -> None:
        self.refs = refs
        self.lease = lease
        self.filling = filling

    @property
    def end(self) -> ReadEnd | None:
        """Why the run ends within this window; None where it goes on."""
        return next((end for end in self.filling.result() if end is not None), None)

    def leading_blocks(self) -> int:
        """How many blocks are in place before the run ends."""
        ends = self.filling.result()
        return next((at for at, end in enumerate(ends) if end is not None), len(ends))

    def chunks(self, blocks: int) -> Iterator[BlockChunk]:
        """The first blocks, cut into chunks."""
        for at, ref in enumerate(self.refs[:blocks]):
            header = BlockHeader(ref.key, ref.parent_key, ref.size_bytes, ref.checksum, ref.tier)
            payload = self.lease.view[at * ref.size_bytes : (at + 1) * ref.size_bytes]
            yield from chunks_of(header, payload)

    def abandon(self) -> None:
        """Stop the reading, and give the memory back once no store writes into it any more."""
        self.filling.cancel()
        self.filling.add_done_callback(lambda _: self.lease.release())


def windows_of(refs: Sequence[BlockRef], bytes_max: int) -> Iterator[Sequence[BlockRef]]:
    """
    Cut a run of blocks, which are all of one size, into windows.

    Args:
        refs: The blocks, in order.
        bytes_max: Payload bytes of a window; a block that is larger makes one by itself.
    """
    blocks = max(1, bytes_max // refs[0].size_bytes) if refs else 1
    for at in range(0, len(refs), blocks):
        yield refs[at : at + blocks]
