"""
Saves in the background, one write at a time for each turn. Not pure.

`save_queue` decides what is taken and what is refused; here it is written: straight into the
node's store where that can be, and else through the node.
"""

import asyncio
from collections.abc import Iterator, Sequence

from hearthkv.client.deadline import Deadline
from hearthkv.client.direct_writer import DirectWriter, Upload
from hearthkv.client.events import BlocksTaken
from hearthkv.client.load_rates import ReadPath
from hearthkv.client.node_client import NodeClient
from hearthkv.client.outcome import Finished, MissReason, miss_of
from hearthkv.client.save_queue import ByteBudget, QueuedBlock, SaveQueue
from hearthkv.client.settings import ClientSettings
from hearthkv.codec.block import chunks_of
from hearthkv.core.block_io import BlockChunk, BlockHeader, WriteStart, WriteStatus
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.checksum import block_checksum
from hearthkv.core.errors import PeerError


class Saver:
    """The saves of all turns of a client, within one budget of bytes."""

    def __init__(self, settings: ClientSettings, direct: DirectWriter) -> None:
        self.budget = ByteBudget(settings.queue_bytes_max)
        self.direct = direct
        self.save_s = settings.save_s
        self._batch_bytes_max = settings.batch_bytes_max
        self._active: set[SaveRun] = set()
        self._is_closed = False

    def new_run(self, node: NodeClient, start: WriteStart) -> "SaveRun":
        """Return the saves of one turn to one node."""
        return SaveRun(self, node, start, SaveQueue(self.budget, self._batch_bytes_max))

    def begin(self, run: "SaveRun") -> "asyncio.Task[None] | None":
        """Start writing what a run has queued; None once the saver is closed."""
        if self._is_closed:
            return None
        task = asyncio.create_task(run.write_all(), name="hearthkv-save")
        self._active.add(run)
        task.add_done_callback(lambda _: self._active.discard(run))
        return task

    async def close(self) -> None:
        """Give up all saves that are not done."""
        self._is_closed = True
        await asyncio.gather(*(run.stop(MissReason.CLOSED) for run in tuple(self._active)))


class SaveRun:
    """The saves of one turn. Made by `Saver.new_run`."""

    def __init__(self, saver: Saver, node: NodeClient, start: WriteStart, queue: SaveQueue) -> None:
        self._saver = saver
        self._node = node
        self._start = start
        self._queue = queue
        self._task: asyncio.Task[None] | None = None

    def add(self, first_block: int, payloads: Sequence[memoryview], keys: PackedKeys) -> int:
        """Queue blocks, as `SaveQueue.add` says, and see that they are written."""
        queued = self._queue.add(first_block, payloads, keys)
        if queued and (self._task is None or self._task.done()):
            self._task = self._saver.begin(self)
            if self._task is None:
                self._queue.abandon(MissReason.CLOSED)
                return 0
        return queued

    async def finish(self, limit_s: float) -> Finished:
        """Wait for the saves, give up those that take longer, and return the account."""
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=limit_s)
            if not self._task.done():
                await self.stop(MissReason.TIMEOUT)
        return self._queue.account

    async def stop(self, reason: MissReason) -> None:
        """Give up what is not saved yet. Only for a run that began to write."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})
        self._queue.abandon(reason)

    async def write_all(self) -> None:
        """Write until nothing waits. Ends early, with an empty queue, when the node fails."""
        try:
            while batch := self._queue.next_batch():
                await self._write(batch)
        except PeerError as error:
            self._queue.abandon(miss_of(error))

    async def _write(self, batch: Sequence[QueuedBlock]) -> None:
        """Write a batch: what can be into the store itself, and the rest through the node."""
        uploads = [Upload(block, self._checksum(block)) for block in batch]
        deadline = Deadline.after(self._node.calls.clock.now(), self._saver.save_s)
        direct = await self._saver.direct.write(self._node.address, self._start, uploads, deadline)
        self._tell(ReadPath.DIRECT, direct)
        streamed: list[WriteStatus] = []
        if len(direct) < len(batch):
            streamed = await self._node.write(self._start, _chunks(uploads[len(direct) :]))
            self._tell(ReadPath.STREAM, streamed)
        self._queue.settle([*direct, *streamed], direct_blocks=len(direct))

    def _tell(self, path: ReadPath, statuses: Sequence[WriteStatus]) -> None:
        if statuses:
            held = sum(status.is_held for status in statuses)
            self._node.calls.telemetry.emit(
                BlocksTaken(self._node.address, path, len(statuses), held)
            )

    def _checksum(self, block: QueuedBlock) -> int:
        return block_checksum(self._start.spec.namespace_id, block.key, block.payload)


def _chunks(uploads: Sequence[Upload]) -> Iterator[BlockChunk]:
    for upload in uploads:
        block = upload.block
        header = BlockHeader(block.key, block.parent_key, len(block.payload), upload.checksum)
        yield from chunks_of(header, block.payload)
