"""The write beat: blocks as they arrive, and on their way to a store in batches."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cachenode.block_assembly import BlockAssembly, Payload
from cachenode.buffer_pool import BufferPool, Lease
from cachenode.catalog import Catalog
from cachenode.events import BlockWritten
from cachenode.plans import WriteTicket
from cachenode.store import CopyWrite
from cachenode.tier_stores import TierStores
from hearthkv.core.block_frame import frame_of
from hearthkv.core.block_io import BlockChunk, BlockHeader, WriteStart, WriteStatus
from hearthkv.core.checksum import block_checksum
from hearthkv.telemetry import Telemetry

BATCH_BYTES: Final = 4 * 1024 * 1024
"""Payload bytes that go to a store by one call; a block that is larger goes by itself."""

BATCHES_MAX: Final = 2
"""Batches that one write has on their way at once, while the next one is gathered."""

ATTEMPTS_MAX: Final = 2
"""Stores that a block is offered to: one a tier."""


class BlockWriter:
    """
    Stores the blocks of writes.

    Args:
        tasks: Owns the writes that are under way.
        pool: Memory for blocks that arrive in parts; bounds that of all writes of the node.
    """

    def __init__(
        self,
        catalog: Catalog,
        stores: TierStores,
        *,
        tasks: asyncio.TaskGroup,
        pool: BufferPool,
        telemetry: Telemetry,
    ) -> None:
        self.catalog = catalog
        self.stores = stores
        self.tasks = tasks
        self.pool = pool
        self.telemetry = telemetry

    async def write(
        self, start: WriteStart, chunks: AsyncIterator[BlockChunk]
    ) -> list[WriteStatus]:
        """
        Store blocks and return what became of each, in the order of their headers.

        What was complete before an error, or before the caller left, is stored all the same.

        Raises:
            BadInputError: If a block has the wrong size, or the chunks make no sense.
        """
        self.catalog.check_namespace(start.spec)
        assembly = BlockAssembly(start.spec)
        write = _Write(self, start)
        lease: Lease | None = None  # of the block that is arriving
        try:
            async for chunk in chunks:
                if lease is None and assembly.wants_memory(chunk):
                    lease = await self.pool.lend(start.spec.block_bytes)
                    assembly.memory = lease.view
                block = assembly.take(chunk)
                if block is not None:
                    arrived, lease = lease, None
                    await write.add(*block, arrived)
            assembly.finish()
        finally:
            if lease is not None:
                lease.release()
            # The bytes are on their way: they are waited for, so that the caller is told.
            await write.finish()
        return write.statuses


@dataclass(eq=False, slots=True)
class _Pending:
    """A block that is gathered, or on its way to a store."""

    index: int  # in the order of arrival
    header: BlockHeader
    payload: Payload
    lease: Lease | None
    """Of the payload's memory; None where that is the caller's message."""

    ticket: WriteTicket
    attempt: int  # from 1 on
    is_stored: bool | None = None
    """What its store said; None before that."""


class _Write:
    """
    One call of `BlockWriter.write`: commits blocks in the order in which they arrived.

    What follows a store's answer is done by the task that asked, as soon as it comes. So a caller
    who leaves, however often it is told to, leaves no block behind that nobody counts.
    """

    def __init__(self, writer: BlockWriter, start: WriteStart) -> None:
        self.statuses: list[WriteStatus] = []
        self._writer = writer
        self._catalog = writer.catalog
        self._start = start
        self._batch_blocks = max(1, BATCH_BYTES // start.spec.block_bytes)
        self._pending: deque[_Pending] = deque()
        """All blocks that are not settled, in the order of arrival."""

        self._gathered: deque[list[_Pending]] = deque()
        """Batches that did not set out yet; each is for one tier."""

        self._under_way = 0  # batches
        self._progress = asyncio.Event()
        self._last_key: bytes | None = None  # of the last block that is held

    async def add(self, header: BlockHeader, payload: Payload, lease: Lease | None) -> None:
        """Take one more block, and wait while no further one could be gathered."""
        index = len(self.statuses)
        self.statuses.append(WriteStatus.UNAVAILABLE)
        planned = self._plan(header, payload)
        if isinstance(planned, WriteStatus):
            self._note(index, header, planned)
            if lease is not None:
                lease.release()
            return
        block = _Pending(index, header, payload, lease, planned, attempt=1)
        self._pending.append(block)
        if not self._gathered or not self._joins(block, self._gathered[-1]):
            self._gathered.append([])
        self._gathered[-1].append(block)
        self._set_out()
        while len(self._gathered) > 1 or self._is_full:
            await self._wait()

    async def finish(self) -> None:
        """Wait until every block is settled."""
        while self._pending:
            await self._wait()
        if self._last_key is not None:
            self._catalog.touch(self._start.spec.namespace_id, self._last_key)
        self._writer.stores.work.set()

    @property
    def _is_full(self) -> bool:
        return bool(self._gathered) and len(self._gathered[-1]) >= self._batch_blocks

    def _joins(self, block: _Pending, batch: Sequence[_Pending]) -> bool:
        is_same_tier = batch[0].ticket.target.tier is block.ticket.target.tier
        return is_same_tier and len(batch) < self._batch_blocks

    async def _wait(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    def _set_out(self) -> None:
        """Send what is gathered to its store. What comes meanwhile makes the next batch."""
        while self._gathered and self._under_way < BATCHES_MAX:
            self._under_way += 1
            self._writer.tasks.create_task(self._store(self._gathered.popleft()))

    async def _store(self, batch: Sequence[_Pending]) -> None:
        writes = [
            CopyWrite(frame_of(block.ticket.spec, block.ticket.target), block.payload)
            for block in batch
        ]
        stored = await self._writer.stores.store(batch[0].ticket.target.tier, writes)
        for block, is_stored in zip(batch, stored, strict=True):
            block.is_stored = is_stored
        self._under_way -= 1
        self._settle()
        self._set_out()
        self._progress.set()

    def _settle(self) -> None:
        """End blocks whose store has answered, as long as those before them have ended."""
        while self._pending and self._pending[0].is_stored is not None:
            if self._pending[0].is_stored:
                block = self._pending.popleft()
                self._end(block, self._catalog.commit_write(block.ticket))
            else:
                self._try_elsewhere()

    def _try_elsewhere(self) -> None:
        """Have the first blocks, which failed, set out again before those that hang on them."""
        failed: list[_Pending] = []
        while self._pending and self._pending[0].is_stored is False:
            failed.append(self._pending.popleft())
        again = [retry for block in failed if (retry := self._plan_again(block)) is not None]
        self._pending.extendleft(reversed(again))
        # Each by itself: this is rare, and their tiers may differ.
        self._gathered.extendleft([block] for block in reversed(again))

    def _plan(self, header: BlockHeader, payload: Payload) -> WriteTicket | WriteStatus:
        spec = self._start.spec
        found = block_checksum(spec.namespace_id, header.key, memoryview(payload))
        if found != header.checksum:
            return WriteStatus.CORRUPT
        return self._catalog.plan_write(
            spec,
            key=header.key,
            parent_key=header.parent_key,
            size_bytes=header.size_bytes,
            checksum=header.checksum,
            session_id=self._start.session_id,
        )

    def _plan_again(self, block: _Pending) -> _Pending | None:
        """Plan another try of a block that its store did not take; None where there is none."""
        planned: WriteTicket | WriteStatus = WriteStatus.UNAVAILABLE
        if block.attempt < ATTEMPTS_MAX:
            # The store's trouble is known to the catalog by now, so it plans around it. It does so
            # before the first plan is given up, so that the namespace and what hangs on it stay.
            planned = self._plan(block.header, block.payload)
        self._catalog.abort_write(block.ticket)
        if isinstance(planned, WriteStatus):
            self._end(block, planned)
            return None
        return replace(block, ticket=planned, attempt=block.attempt + 1, is_stored=None)

    def _end(self, block: _Pending, status: WriteStatus) -> None:
        self._note(block.index, block.header, status)
        if block.lease is not None:
            block.lease.release()

    def _note(self, index: int, header: BlockHeader, status: WriteStatus) -> None:
        self.statuses[index] = status
        if status.is_held:
            self._last_key = header.key
        self._writer.telemetry.emit(BlockWritten(status, header.size_bytes))
        self._writer.stores.work.set()
