"""The bytes of a pull: read from the source in windows, and written here behind one another."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from cachenode.block_writer import BlockWriter
from cachenode.buffer_pool import BufferPool, Lease
from cachenode.peer_nodes import PeerNode
from hearthkv.client.deadline import Deadline
from hearthkv.client.outcome import MissReason
from hearthkv.client.prefix_assembly import PrefixAssembly
from hearthkv.core.block_io import (
    BlockChunk,
    BlockHeader,
    DropBlocks,
    ReadQuery,
    WriteStart,
    WriteStatus,
)
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import BadInputError, PeerError
from hearthkv.core.pulls import PullEnd

WINDOW_BYTES: Final = 8 * 1024 * 1024
"""Payload bytes that are read by one call, and given to those who wait together."""

WINDOWS_MAX: Final = 2
"""Windows of one pull that have memory: one is written while the next is read. The first one has
come before the second sets out: of a source that failed a moment ago, one call at a time is let
through to see whether it is back."""

END_OF_MISS: Final = {
    MissReason.NOT_HELD: PullEnd.MISS,
    MissReason.LOST: PullEnd.MISS,
    MissReason.CORRUPT: PullEnd.MISS,
}
"""Any other reason is trouble of the source."""

END_OF_STATUS: Final = {WriteStatus.CORRUPT: PullEnd.MISS}
"""Any other block that is not held found no room, no store, or its parent gone for want of it."""


@dataclass(eq=False, slots=True)
class _Window:
    """A run of blocks on their way."""

    assembly: PrefixAssembly
    lease: Lease
    reading: "asyncio.Task[PullEnd | None]"


class PullTransfer:
    """
    Copies blocks of one prefix from a source into the node.

    Each block is verified when it comes, and again by the writer (I1); it is held as soon as it
    is stored, and never before its parent (I2).

    Args:
        source: Whom to read from.
        keys: Of the whole prefix.
        start: Their namespace, and the session on whose behalf they come.
        writer: Stores them.
        pool: Lends the memory that they pass through (I3).
        tasks: Owns the reads and writes under way.
        on_stored: Told of every window how many of its blocks were not held before.
    """

    def __init__(
        self,
        source: PeerNode,
        keys: PackedKeys,
        start: WriteStart,
        *,
        writer: BlockWriter,
        pool: BufferPool,
        tasks: asyncio.TaskGroup,
        on_stored: Callable[[int], None],
    ) -> None:
        self._source = source
        self._keys = keys
        self._start = start
        self._writer = writer
        self._pool = pool
        self._tasks = tasks
        self._on_stored = on_stored
        self._window_blocks = max(1, WINDOW_BYTES // start.spec.block_bytes)
        self._windows_max = 1

    async def run(self, first_block: int, deadline: Deadline) -> PullEnd | None:
        """Copy the blocks from `first_block` on; return why not all came, None where they did."""
        coming = deque(range(first_block, len(self._keys), self._window_blocks))
        under_way: deque[tuple[int, _Window]] = deque()
        try:
            while coming or under_way:
                await self._set_out(coming, under_way, deadline)
                at, window = under_way[0]
                end = await asyncio.shield(window.reading)
                if end is None:
                    self._windows_max = WINDOWS_MAX
                    await self._set_out(coming, under_way, deadline)
                under_way.popleft()
                end = await self._store(at, window) or end
                if end is not None:
                    return end
        finally:
            for _, window in under_way:
                window.reading.cancel()
                _release_behind(window.reading, window.lease)
        return None

    async def _set_out(
        self, coming: deque[int], under_way: deque[tuple[int, _Window]], deadline: Deadline
    ) -> None:
        """Begin to read what there is memory for; wait for memory only with empty hands."""
        spec = self._start.spec
        while coming and len(under_way) < self._windows_max:
            keys = self._keys.slice(coming[0], coming[0] + self._window_blocks)
            size_bytes = len(keys) * spec.block_bytes
            lease = (
                self._pool.try_lend(size_bytes) if under_way else await self._pool.lend(size_bytes)
            )
            if lease is None:
                return
            assembly = PrefixAssembly(
                lease.view, keys, namespace_id=spec.namespace_id, block_bytes=spec.block_bytes
            )
            at = coming.popleft()
            reading = self._tasks.create_task(self._read(at, keys, assembly, deadline))
            under_way.append((at, _Window(assembly, lease, reading)))

    async def _read(
        self, at: int, keys: PackedKeys, assembly: PrefixAssembly, deadline: Deadline
    ) -> PullEnd | None:
        query = ReadQuery(self._start.spec.namespace_id, keys, at, session_id=None)
        try:
            await self._source.read(query, assembly, deadline)
            if assembly.miss is MissReason.CORRUPT:
                await self._drop_at_source(keys, assembly.blocks)
        except PeerError:
            return PullEnd.UNAVAILABLE
        miss = assembly.miss
        return None if miss is None else END_OF_MISS.get(miss, PullEnd.UNAVAILABLE)

    async def _drop_at_source(self, keys: PackedKeys, block: int) -> None:
        """Have a damaged block forgotten; else the source would go on to offer it."""
        damaged = keys.slice(block, block + 1)
        with suppress(PeerError):  # the frame of the call took note
            await self._source.drop(DropBlocks(self._start.spec.namespace_id, damaged))

    async def _store(self, at: int, window: _Window) -> PullEnd | None:
        """Write what came of a window; return why it is not all held, None where it is."""
        writing = self._tasks.create_task(self._write(at, window.assembly))
        # Stores may read the memory until the write is over, though the pull is given up.
        _release_behind(writing, window.lease)
        statuses = await asyncio.shield(writing)
        if statuses is None:
            return PullEnd.UNAVAILABLE
        self._on_stored(statuses.count(WriteStatus.STORED))
        for status in statuses:
            if not status.is_held:
                return END_OF_STATUS.get(status, PullEnd.NO_ROOM)
        return None

    async def _write(self, at: int, assembly: PrefixAssembly) -> Sequence[WriteStatus] | None:
        try:
            return await self._writer.write(self._start, self._chunks(at, assembly))
        except BadInputError:  # the namespace came to be known with other sizes
            return None

    async def _chunks(self, at: int, assembly: PrefixAssembly) -> AsyncIterator[BlockChunk]:
        size_bytes = self._start.spec.block_bytes
        for block, checksum in enumerate(assembly.checksums, at):
            parent_key = self._keys[block - 1] if block else b""
            header = BlockHeader(self._keys[block], parent_key, size_bytes, checksum)
            yield BlockChunk(header, assembly.payload(block - at))


def _release_behind(task: "asyncio.Task[object]", lease: Lease) -> None:
    """Give memory back once nothing uses it any more."""
    task.add_done_callback(lambda _: lease.release())
