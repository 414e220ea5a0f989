"""
Reads a located prefix from all stores at once, straight into the caller's memory. Not pure.

A block is verified as soon as it is there. When `run` has ended, however it did, nothing writes
to the caller's memory any more: a request that is under way at a Redis server is withdrawn, and
what it still brings is thrown away; a read of a file that hangs in its disk is left behind, for
it fills memory of its own, and is not waited for. Only the view of the memory lives on with it.
"""

import asyncio
from collections import deque
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
        self._on_progress: OnProgress | None = None
        self._told = 0
        self._news_s = 0.0
        """When something came last, by the loop's clock."""

    async def run(
        self, deadline: Deadline, stall_s: float, on_progress: OnProgress | None = None
    ) -> None:
        """
        Read until nothing is missing, or the first block that is missing stops it.

        Args:
            deadline: When to give up.
            stall_s: Seconds without a block after which the stores are in trouble.
            on_progress: Must be short. Without one fewer tasks are woken.
        """
        self._on_progress = on_progress
        with self._stores.in_use():
            tasks = [
                asyncio.create_task(self._read_server(server, reads))
                for server, reads in self._plan.by_server.items()
            ]
            runs = deque(self._plan.runs)
            lanes = min(len(runs), self._stores.threads.count)
            tasks += [asyncio.create_task(self._read_lane(runs)) for _ in range(lanes)]
            try:
                await self._follow(deadline, stall_s)
            finally:
                await _end(tasks)

    async def _follow(self, deadline: Deadline, stall_s: float) -> None:
        """Wait until it is over, or the deadline is, or nothing came for `stall_s`."""
        loop = asyncio.get_running_loop()
        self._news_s = loop.time()
        while not self.prefix.is_over:
            left_s = deadline.left_s(self._clock.now())
            patience_s = self._news_s + stall_s - loop.time()
            self._changed.clear()
            try:
                async with asyncio.timeout(min(left_s, patience_s)):
                    await self._changed.wait()
            except TimeoutError:
                self.is_late = left_s < patience_s
                if self.is_late:
                    break
                if loop.time() >= self._news_s + stall_s:
                    self.trouble = DirectPathError(f"stores brought nothing for {stall_s:.3g} s")
                    break
            self._tell()
        self._tell()

    def _tell(self) -> None:
        if self._on_progress is not None and self.prefix.blocks > self._told:
            self._told = self.prefix.blocks
            self._on_progress(self._told)

    def _note_news(self) -> None:
        """Take note that something came; nobody is woken who need not know of it."""
        self._news_s = asyncio.get_running_loop().time()
        if self._on_progress is not None or self.prefix.is_over:
            self._changed.set()

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

    async def _read_lane(self, runs: deque[RunRead]) -> None:
        """Have a thread read runs as long as there are any: a hop to it costs more than a read."""
        guard, loop = ReadGuard(), asyncio.get_running_loop()
        try:
            await self._stores.threads.run(lambda: self._read_runs(runs, guard, loop))
        except DirectPathError as error:
            self._fail(min(self._plan.runs[0].blocks), error)
        finally:
            guard.give_up()

    def _read_runs(
        self, runs: deque[RunRead], guard: ReadGuard, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Read runs that nobody has begun, in a thread, and tell the loop of each."""
        is_wanted = True
        while is_wanted:
            try:
                read = runs.popleft()
            except IndexError:
                return
            outcome = self._outcome(read, guard)
            with guard as is_wanted:  # else there may be no loop any more
                if is_wanted:
                    loop.call_soon_threadsafe(self._take_in, read, outcome)

    def _outcome(self, read: RunRead, guard: ReadGuard) -> set[int] | DirectPathError:
        """Fill a run, in a thread; return the blocks of it that are verified."""
        verified = set[int]()

        def settle(at: int) -> None:
            if _is_right(read.refs[at], read.run.parts[at]):
                verified.add(read.blocks[at])

        try:
            self._stores.threads.check_open()
            self._stores.files.read(read.run, guard, settle)
        except DirectPathError as error:
            return error
        except FileNotFoundError:
            return set()  # its blocks were moved, and the file with them
        except OSError as error:
            return DirectPathError(f"file can't be read: {error}")
        return verified

    def _take_in(self, read: RunRead, outcome: set[int] | DirectPathError) -> None:
        """Take note of what became of a run."""
        if isinstance(outcome, DirectPathError):
            self._fail(min(read.blocks), outcome)
            return
        for block in read.blocks:
            if block in outcome:
                self.prefix.arrived(block)
            else:
                self.prefix.failed(block)
        self._note_news()

    def _settle(self, block: int, error: StoreError | None) -> None:
        if error is None:
            self.prefix.arrived(block)
            self._note_news()
        elif isinstance(error, BlockLostError):
            self.prefix.failed(block)
            self._note_news()
        else:
            self._fail(block, error)

    def _fail(self, block: int, error: HearthKVError) -> None:
        self.trouble = error
        self.prefix.failed(block)
        self._note_news()


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
