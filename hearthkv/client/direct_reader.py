"""
Reads a located prefix from all stores at once, straight into the caller's memory. Not pure.

A block is verified as soon as it is there. When `run` has ended, however it did, nothing writes
to the caller's memory any more: a request that is under way at a Redis server is withdrawn, and
what it still brings is thrown away; a read of a file that hangs in its disk is left behind, for
it fills memory of its own, and is not waited for. Only the view of the memory lives on with it.
"""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Final

from hearthkv.client.deadline import Deadline
from hearthkv.client.direct_plan import RunRead, ServerRead, plan_reads
from hearthkv.client.direct_prefix import DirectPrefix
from hearthkv.client.direct_stores import DirectStores
from hearthkv.client.load_run import OnProgress
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.checksum import block_checksum
from hearthkv.core.clock import Clock
from hearthkv.core.direct_path import LocatedBlock
from hearthkv.core.errors import BlockLostError, DirectPathError, HearthKVError, StoreError
from hearthkv.datapath.file_reader import ReadGuard
from hearthkv.datapath.file_reads import whole_parts
from hearthkv.datapath.redis_blocks import read_outcome, read_request
from hearthkv.datapath.resp_wire import Request

REQUESTS_MAX: Final = 256
"""Requests that are made at once, so that the first is not kept waiting by those far behind it."""


class DirectRead:
    """
    One read of located blocks. Used once.

    Args:
        stores: Of their node.
        located: The blocks, in the order of the prompt, all of one size.
        view: Writable bytes; block i goes to `i * size_bytes`. What lies behind the blocks that
            count is undefined.
        clock: Tells when a deadline is over.

    Raises:
        PeerContractError: If a block is said to lie where no block may.
    """

    def __init__(
        self,
        stores: DirectStores,
        located: Sequence[LocatedBlock],
        view: memoryview,
        clock: Clock,
    ) -> None:
        self.prefix = DirectPrefix([each.ref.tier for each in located])
        self.trouble: HearthKVError | None = None
        """Why the stores should be left alone; None where a block is missing at most."""
        self.is_late = False
        """Whether it ended because the deadline was over."""

        self._stores = stores
        self._clock = clock
        self._plan = plan_reads(
            located,
            view,
            stores.names,
            servers=len(stores.places),
            has_files=stores.has_files,
        )
        self._changed = asyncio.Event()
        self._told = 0

    async def run(self, deadline: Deadline, stall_s: float, on_progress: OnProgress) -> None:
        """
        Read until nothing is missing, or the first block that is missing stops it.

        Args:
            deadline: When to give up.
            stall_s: Seconds without a block after which the stores are in trouble.
            on_progress: Must be short.
        """
        with self._stores.in_use():
            tasks = [
                asyncio.create_task(self._read_server(server, reads))
                for server, reads in self._plan.by_server.items()
            ]
            tasks += [asyncio.create_task(self._read_run(run)) for run in self._plan.runs]
            try:
                await self._follow(deadline, stall_s, on_progress)
            finally:
                await _end(tasks)

    async def _follow(self, deadline: Deadline, stall_s: float, on_progress: OnProgress) -> None:
        while not self.prefix.is_over:
            self._changed.clear()
            wait_s = deadline.wait_s(self._clock.now(), stall_s)
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                self.is_late = wait_s < stall_s
                if not self.is_late:
                    self.trouble = DirectPathError(f"stores brought nothing for {wait_s:.3g} s")
                break
            self._tell(on_progress)
        self._tell(on_progress)

    def _tell(self, on_progress: OnProgress) -> None:
        if self.prefix.blocks > self._told:
            self._told = self.prefix.blocks
            on_progress(self._told)

    async def _read_server(self, server: int, reads: Sequence[ServerRead]) -> None:
        left = iter(reads)
        while part := list(islice(left, REQUESTS_MAX)):
            if not await self._read_part(server, part):
                return

    async def _read_part(self, server: int, part: Sequence[ServerRead]) -> bool:
        """Read some blocks of a server; False where it is in trouble."""
        place, pool = self._stores.places[server], self._stores.pools[server]
        missing = {each.block for each in part}

        def settle(index: int, request: Request) -> None:
            each = part[index]
            missing.remove(each.block)
            self._settle(each.block, read_outcome(place, each.read, request))

        try:
            await pool.run([read_request(each.read) for each in part], settle)
        except (OSError, HearthKVError) as error:
            self._fail(min(missing), DirectPathError(f"{place}: {error}"))
            return False
        return True

    async def _read_run(self, read: RunRead) -> None:
        guard = ReadGuard()
        try:
            arrived = await self._stores.threads.run(lambda: self._fill(read, guard))
        except FileNotFoundError:
            arrived = set()  # its blocks were moved, and the file with them
        except (OSError, DirectPathError) as error:
            self._fail(min(read.blocks), DirectPathError(f"file can't be read: {error}"))
            return
        finally:
            guard.give_up()
        for block in read.blocks:
            if block in arrived:
                self.prefix.arrived(block)
            else:
                self.prefix.failed(block)
        self._changed.set()

    def _fill(self, read: RunRead, guard: ReadGuard) -> set[int]:
        """Fill a run, in a thread; return the blocks of it that are verified."""
        filled = self._stores.files.read(read.run, guard)
        whole = sum(1 for _ in whole_parts(read.run, filled))
        with guard.filling() as is_wanted:
            if not is_wanted:
                return set()
            parts = zip(read.blocks[:whole], read.refs, read.run.parts, strict=False)
            return {block for block, ref, part in parts if _is_right(ref, part)}

    def _settle(self, block: int, error: StoreError | None) -> None:
        if error is None:
            self.prefix.arrived(block)
            self._changed.set()
        elif isinstance(error, BlockLostError):
            self.prefix.failed(block)
            self._changed.set()
        else:
            self._fail(block, error)

    def _fail(self, block: int, error: HearthKVError) -> None:
        self.trouble = error
        self.prefix.failed(block)
        self._changed.set()


def _is_right(ref: BlockRef, payload: memoryview) -> bool:
    return block_checksum(ref.namespace_id, ref.key, payload) == ref.checksum


async def _end(tasks: "Sequence[asyncio.Task[None]]") -> None:
    """Cancel tasks and wait until they let go of the memory, however often we are cancelled."""
    is_cancelled = False
    for task in tasks:
        task.cancel()
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError
    for task in tasks:
        if not task.cancelled():
            task.result()  # raises where our own code is wrong
