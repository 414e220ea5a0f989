"""The write beat: blocks as they arrive, a few of them on their way to a store."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from cachenode.block_assembly import BlockAssembly, Payload
from cachenode.catalog import Catalog
from cachenode.events import BlockWritten
from cachenode.plans import WriteTicket
from cachenode.store import CopyWrite
from cachenode.tier_stores import TierStores
from hearthkv.core.block_frame import frame_of
from hearthkv.core.block_io import BlockChunk, BlockHeader, WriteStart, WriteStatus
from hearthkv.core.checksum import block_checksum
from hearthkv.telemetry import Telemetry

UNDER_WAY_MAX: Final = 4
"""Blocks that one write has on their way to a store at once."""

ATTEMPTS_MAX: Final = 2
"""Stores that a block is offered to: one a tier."""


class BlockWriter:
    """
    Stores the blocks of writes.

    Args:
        tasks: Owns the writes that are under way.
    """

    def __init__(
        self,
        catalog: Catalog,
        stores: TierStores,
        *,
        tasks: asyncio.TaskGroup,
        telemetry: Telemetry,
    ) -> None:
        self.catalog = catalog
        self.stores = stores
        self.tasks = tasks
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
        try:
            async for chunk in chunks:
                block = assembly.take(chunk)
                if block is not None:
                    await write.add(*block)
            assembly.finish()
        finally:
            # The bytes are on their way: they are waited for, or nobody would count them.
            await write.finish()
        return write.statuses


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A block on its way to a store."""

    index: int  # in the order of arrival
    header: BlockHeader
    payload: Payload
    ticket: WriteTicket
    storing: asyncio.Task[bool]
    attempt: int  # from 1 on


class _Write:
    """One call of `BlockWriter.write`: commits blocks in the order in which they arrived."""

    def __init__(self, writer: BlockWriter, start: WriteStart) -> None:
        self.statuses: list[WriteStatus] = []
        self._writer = writer
        self._catalog = writer.catalog
        self._start = start
        self._under_way: deque[_UnderWay] = deque()
        self._last_key: bytes | None = None  # of the last block that is held

    async def add(self, header: BlockHeader, payload: Payload) -> None:
        """Set out to store one more block, and wait until not too many are under way."""
        index = len(self.statuses)
        self.statuses.append(WriteStatus.UNAVAILABLE)
        planned = self._plan(header, payload)
        if isinstance(planned, WriteStatus):
            self._note(index, header, planned)
        else:
            self._under_way.append(self._set_out(index, header, payload, planned, attempt=1))
        while len(self._under_way) >= UNDER_WAY_MAX:
            await self._settle()

    async def finish(self) -> None:
        """Wait for what is under way."""
        while self._under_way:
            await self._settle()
        if self._last_key is not None:
            self._catalog.touch(self._start.spec.namespace_id, self._last_key)
        self._writer.stores.work.set()

    def _set_out(
        self,
        index: int,
        header: BlockHeader,
        payload: Payload,
        ticket: WriteTicket,
        *,
        attempt: int,
    ) -> _UnderWay:
        storing = self._writer.tasks.create_task(self._store(ticket, payload))
        return _UnderWay(index, header, payload, ticket, storing, attempt)

    async def _store(self, ticket: WriteTicket, payload: Payload) -> bool:
        write = CopyWrite(frame_of(ticket.spec, ticket.target), payload)
        (is_stored,) = await self._writer.stores.store(ticket.target.tier, [write])
        return is_stored

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

    async def _settle(self) -> None:
        """Commit the block that set out first; where its store failed, try what else there is."""
        # Waited for, not awaited: a caller who leaves here must not cancel the store's work. And
        # no await lies between the queue and the catalog, or a ticket could be lost between them.
        await asyncio.wait({self._under_way[0].storing})
        block = self._under_way.popleft()
        if block.storing.result():
            self._note(block.index, block.header, self._catalog.commit_write(block.ticket))
        else:
            self._try_elsewhere(block)

    def _try_elsewhere(self, block: _UnderWay) -> None:
        """Set out again to another store, before the blocks that hang on this one."""
        planned: WriteTicket | WriteStatus = WriteStatus.UNAVAILABLE
        if block.attempt < ATTEMPTS_MAX:
            # The store's trouble is known to the catalog by now, so it plans around it. It does so
            # before the first plan is given up, so that the namespace and what hangs on it stay.
            planned = self._plan(block.header, block.payload)
        self._catalog.abort_write(block.ticket)
        if isinstance(planned, WriteStatus):
            self._note(block.index, block.header, planned)
            return
        again = self._set_out(
            block.index, block.header, block.payload, planned, attempt=block.attempt + 1
        )
        self._under_way.appendleft(again)

    def _note(self, index: int, header: BlockHeader, status: WriteStatus) -> None:
        self.statuses[index] = status
        if status.is_held:
            self._last_key = header.key
        self._writer.telemetry.emit(BlockWritten(status, header.size_bytes))
        self._writer.stores.work.set()
