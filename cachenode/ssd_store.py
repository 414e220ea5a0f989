"""
Blocks on the local disk: the SSD store. The only module that uses aiofiles.

A batch is one hop to a thread, or a few where blocks are read in parallel, so that the event
loop never waits for a disk. What a thread does there is `slab_files` and `FileReader`.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, ParamSpec, TypeVar

from aiofiles.os import wrap

from cachenode.disk import FULL
from cachenode.slab_files import SlabFiles
from cachenode.store import CopyRead, CopyWrite, ScanPart, StoreCheck
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.checksum import block_checksum
from hearthkv.core.direct_path import BlockAddress
from hearthkv.core.errors import (
    BlockLostError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from hearthkv.core.tier import Tier
from hearthkv.datapath.file_reader import ReadGuard
from hearthkv.datapath.file_reads import FileRead, FileRun, runs_of

THREADS: Final = 4
"""Calls to the disk at once: what a disk needs to be busy, and few enough for two cores."""

_SCAN_SLABS: Final = 8

P = ParamSpec("P")
T = TypeVar("T")


class SsdStore:
    """
    A `BlockStore` over the slab files of one folder.

    Args:
        files: Belongs to the store from now on.
        deadline_s: What a call may take.
        is_parallel: Whether one `get` may read several runs at once.
    """

    def __init__(self, files: SlabFiles, *, deadline_s: float, is_parallel: bool = True) -> None:
        self.tier: Final = Tier.SSD
        self._files = files
        self._deadline_s = deadline_s
        self._hops_max = THREADS if is_parallel else 1
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="ssd")
        self._identity: tuple[int, int] | None = None  # of the folder at the last good look

    async def put(self, writes: Sequence[CopyWrite]) -> list[StoreError | None]:
        """Store blocks, next to each other where they are of one namespace."""
        is_given_up = threading.Event()
        try:
            async with self._call():
                outcomes = await self._in_thread(self._files.write, writes, is_given_up)
        except StoreError as error:
            return [error] * len(writes)
        finally:
            # No thread can be stopped in the middle of a write. One that nobody waits for any more
            # takes back what it wrote.
            is_given_up.set()
        return [None if outcome is None else self._translated(outcome) for outcome in outcomes]

    async def get(self, reads: Sequence[CopyRead]) -> list[StoreError | None]:
        """Read payloads, checked, as few and as long runs as they make."""
        outcomes: list[StoreError | None] = [
            BlockLostError(f"there is no block {read.ref.key.hex()} on the disk") for read in reads
        ]
        addresses = self._files.locate([read.ref for read in reads])
        found = [index for index, address in enumerate(addresses) if address is not None]
        runs = runs_of(
            [
                FileRead(address, read.into)
                for address, read in zip(addresses, reads, strict=True)
                if address is not None
            ]
        )
        wanted = [reads[index] for index in found]
        guards = [ReadGuard() for _ in range(min(len(runs), self._hops_max))]
        try:
            async with self._call():
                hops = (
                    self._in_thread(self._read, runs[at :: len(guards)], wanted, guard)
                    for at, guard in enumerate(guards)
                )
                for part in await asyncio.gather(*hops):
                    for index, outcome in part:
                        outcomes[found[index]] = outcome
        except StoreError as error:
            return [error] * len(reads)
        finally:
            for guard in guards:
                guard.give_up()
        return outcomes

    async def erase(self, refs: Sequence[BlockRef]) -> None:
        """Forget blocks."""
        async with self._call():
            await self._in_thread(self._files.erase, refs)

    async def scan(self) -> AsyncIterator[ScanPart]:
        """Go over all blocks."""
        async with self._call():
            names = await self._in_thread(self._files.begin_scan)
        for at in range(0, len(names), _SCAN_SLABS):
            async with self._call():
                part = await self._in_thread(self._scan, names[at : at + _SCAN_SLABS])
            yield part
        async with self._call():
            await self._in_thread(self._files.end_scan)

    async def check(self) -> StoreCheck:
        """Look whether the folder takes files and is what it was."""
        try:
            async with self._call():
                identity = await self._in_thread(self._files.check)
        except StoreError as error:
            return StoreCheck(trouble=str(error), is_same=False)
        is_same = identity is not None and identity == self._identity
        self._identity = identity
        return StoreCheck(trouble="", is_same=is_same, advice=self._files.advice)

    def locate(self, refs: Sequence[BlockRef]) -> list[BlockAddress | None]:
        """Say where payloads lie; None for what is not here."""
        return [*self._files.locate(refs)]

    async def close(self) -> None:
        """Let the threads end; one that hangs in the disk is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._files.close()

    def _read(
        self, runs: Sequence[FileRun], reads: Sequence[CopyRead], guard: ReadGuard
    ) -> list[tuple[int, StoreError | None]]:
        """Read runs one after the other, and check each while its bytes are warm."""
        self._files.disk.identity()  # open files would hide that the disk is gone
        return [outcome for run in runs for outcome in self._read_run(run, reads, guard)]

    def _read_run(
        self, run: FileRun, reads: Sequence[CopyRead], guard: ReadGuard
    ) -> Iterator[tuple[int, StoreError | None]]:
        found: dict[int, StoreError | None] = {}

        def settle(at: int) -> None:
            index = run.indexes[at]
            found[index] = _checked(reads[index])

        try:
            self._files.reader.read(run, guard, settle)
        except FileNotFoundError:
            pass
        except OSError as error:
            for index in run.indexes:
                yield index, self._translated(error)
            return
        for index in run.indexes:
            if index in found:
                yield index, found[index]
            else:
                yield index, BlockLostError(f"{run.start.name} ends before block {index}")

    def _scan(self, names: Sequence[str]) -> ScanPart:
        parts = [self._files.scan(name) for name in names]
        frames = tuple(frame for found, _ in parts for frame in found)
        return ScanPart(frames, sum(removed for _, removed in parts))

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **_: P.kwargs) -> T:
        hop: Callable[..., Awaitable[T]] = wrap(work)
        return await hop(*args, executor=self._threads)

    def _translated(self, error: OSError) -> StoreError:
        reason = f"{self._files.disk.folder}: {error.strerror or error}"
        kind = StoreFullError if error.errno in FULL else StoreUnavailableError
        translated = kind(reason)
        translated.__cause__ = error
        return translated

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        """Bound a call by the deadline, and translate what goes wrong in it."""
        try:
            async with asyncio.timeout(self._deadline_s):
                yield
        except TimeoutError as error:
            raise StoreUnavailableError(
                f"{self._files.disk.folder} did not answer within {self._deadline_s:g} s"
            ) from error
        except OSError as error:
            raise self._translated(error) from error


def _checked(read: CopyRead) -> StoreError | None:
    """Whether the right bytes came."""
    ref = read.ref
    found = block_checksum(ref.namespace_id, ref.key, read.into)
    if found == ref.checksum:
        return None
    return BlockLostError(
        f"block {ref.key.hex()}: payload has checksum {found:016x}, must have {ref.checksum:016x}"
    )
