"""
Blocks on the local disk: the SSD store. The only module that uses aiofiles.

Each call is one hop to a thread that does all of its file work, `block_files`, so that the
event loop never waits for a disk.
"""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, ParamSpec, TypeVar

from aiofiles.os import wrap

from cachenode.block_files import BlockFiles
from cachenode.store import CopyRead, CopyWrite, ScanPart, StoreCheck
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.errors import (
    BlockLostError,
    FrameError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from hearthkv.core.tier import Tier

THREADS: Final = 4
"""Files under way at once: what a disk needs to be busy, and few enough for two cores."""

_SCAN_LEAVES: Final = 64
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)

P = ParamSpec("P")
T = TypeVar("T")


class SsdStore:
    """A `BlockStore` over the files of one folder."""

    def __init__(self, files: BlockFiles, *, deadline_s: float) -> None:
        self.tier: Final = Tier.SSD
        self._files = files
        self._deadline_s = deadline_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="ssd")
        self._folder_id: tuple[int, int] | None = None  # device and inode at the last good look

    async def put(self, writes: Sequence[CopyWrite]) -> list[StoreError | None]:
        """Store blocks."""
        return list(await asyncio.gather(*map(self._put, writes)))

    async def get(self, reads: Sequence[CopyRead]) -> list[StoreError | None]:
        """Read payloads, checked."""
        return list(await asyncio.gather(*map(self._get, reads)))

    async def _put(self, write: CopyWrite) -> StoreError | None:
        is_given_up = threading.Event()
        try:
            async with self._call():
                await self._in_thread(self._write, write.frame, write.payload, is_given_up)
        except StoreError as error:
            is_given_up.set()
            return error
        except BaseException:
            is_given_up.set()
            raise
        return None

    async def _get(self, read: CopyRead) -> StoreError | None:
        ref = read.ref
        try:
            async with self._call():
                try:
                    read.into[:] = await self._in_thread(self._files.read, ref)
                except FileNotFoundError as error:
                    await self._in_thread(
                        os.stat, self._files.folder
                    )  # is it the disk that is gone?
                    raise BlockLostError(f"there is no file of block {ref.key.hex()}") from error
                except FrameError as error:
                    raise BlockLostError(f"file of block {ref.key.hex()}: {error}") from error
        except StoreError as error:
            return error
        return None

    async def erase(self, refs: Sequence[BlockRef]) -> None:
        """Forget blocks."""
        async with self._call():
            await self._in_thread(self._files.erase, refs)

    async def scan(self) -> AsyncIterator[ScanPart]:
        """Go over all blocks."""
        async with self._call():
            leaves = await self._in_thread(self._files.leaves)
        for at in range(0, len(leaves), _SCAN_LEAVES):
            async with self._call():
                frames, removed = await self._in_thread(
                    self._files.scan, leaves[at : at + _SCAN_LEAVES]
                )
            yield ScanPart(tuple(frames), removed)

    async def check(self) -> StoreCheck:
        """Look whether the folder takes files and is what it was."""
        try:
            async with self._call():
                await self._in_thread(self._files.check)
                status = await self._in_thread(os.stat, self._files.folder)
        except (StoreUnavailableError, StoreFullError) as error:
            return StoreCheck(trouble=str(error), is_same=False)
        found = (status.st_dev, status.st_ino)
        is_same = found == self._folder_id
        self._folder_id = found
        return StoreCheck(trouble="", is_same=is_same)

    async def close(self) -> None:
        """Let the threads end; one that hangs in the disk is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._files.close()

    def _write(
        self,
        frame: BlockFrame,
        payload: bytes | bytearray | memoryview,
        is_given_up: threading.Event,
    ) -> None:
        self._files.write(frame, payload)
        # No thread can be stopped in the middle of a write. Where nobody waits for it any more, the
        # block's erasure may have come before the block.
        if is_given_up.is_set():
            self._files.erase([frame.ref(self.tier)])

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **_: P.kwargs) -> T:
        hop: Callable[..., Awaitable[T]] = wrap(work)
        return await hop(*args, executor=self._threads)

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        """Bound a call by the deadline, and translate what goes wrong in it."""
        try:
            async with asyncio.timeout(self._deadline_s):
                yield
        except TimeoutError as error:
            raise StoreUnavailableError(
                f"{self._files.folder} did not answer within {self._deadline_s:g} s"
            ) from error
        except OSError as error:
            reason = f"{self._files.folder}: {error.strerror or error}"
            if error.errno in _FULL:
                raise StoreFullError(reason) from error
            raise StoreUnavailableError(reason) from error
