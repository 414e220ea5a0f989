"""
Reads runs of slab files: through the page cache, or past it by O_DIRECT. Blocking calls.

Used by a node's threads and by clients on its host; whoever reads checks the bytes. Linux can't
be told to give up a read that hangs in a disk. So who may want to leave before the end passes a
`ReadGuard`: what the page cache has then goes straight into the caller's memory, for that never
hangs, and the rest by way of memory of our own.
"""

import ctypes
import errno
import mmap
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hearthkv.datapath.file_reads import FileRun, Filling, beyond, warm_slices

ALIGN_BYTES: Final = 4096
"""O_DIRECT wants file offset, length and memory to be multiples of it."""

DESCRIPTORS_MAX: Final = 64
BOUNCES_MAX: Final = 4
BOUNCE_BYTES: Final = 2 * 1024**2

_CANT: Final = (errno.EAGAIN, errno.EOPNOTSUPP)


class ReadGuard:
    """Lets a caller leave a read behind: after `give_up` its memory is not written to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_given_up = False

    def __enter__(self) -> bool:
        """Keep the caller from leaving; False where it has left. Only for what can't hang."""
        self._lock.acquire()
        return not self._is_given_up

    def __exit__(self, *_: object) -> None:
        """Let the caller leave."""
        self._lock.release()

    def give_up(self) -> None:
        """Take the memory back; waits for a copy that is under way, never for a disk."""
        with self._lock:
            self._is_given_up = True


class _OpenFile:
    """A descriptor, and how many are reading from it."""

    def __init__(self, descriptor: int, *, is_direct: bool) -> None:
        self.descriptor = descriptor
        self.is_direct = is_direct
        self.readers = 0
        self.is_cached = True


class FileReader:
    """
    Reads from the files of one folder; any number of threads may.

    Args:
        folder: Where the files are.
        is_direct: Read past the page cache, where the file system lets us.
        descriptors_max: Files that stay open between two reads.
    """

    def __init__(
        self, folder: Path, *, is_direct: bool, descriptors_max: int = DESCRIPTORS_MAX
    ) -> None:
        self.folder = folder
        self._descriptors_max = descriptors_max
        self.is_direct = is_direct
        self.takes_direct = True
        """False once the file system refused O_DIRECT, and was read through the page cache."""

        self._lock = threading.Lock()
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._bounces: list[memoryview] = []
        self._bounces_left = threading.Semaphore(BOUNCES_MAX)

    def read(
        self,
        run: FileRun,
        guard: ReadGuard | None = None,
        settle: Callable[[int], None] = lambda _: None,
    ) -> int:
        """
        Fill a run's parts, and return how many bytes there were: fewer only where the file ends.

        Args:
            run: Its parts are undefined beyond what was filled.
            guard: Lets the caller leave earlier; None for one who stays until the end.
            settle: Is told the place in the run of each part that is whole, in order, while its
                bytes are warm and the caller has not left.

        Raises:
            OSError: If the file is not there or can't be read.
        """
        file = self._acquire(run.start.name)
        try:
            filled = self._fill_parts(file, run, guard, Filling(run, settle))
        finally:
            self._release(file)
        if filled < run.size_bytes:
            self.forget(run.start.name)  # perhaps it was replaced by another of its name
        return filled

    def forget(self, name: str) -> None:
        """Close a file that is about to be removed, once nobody reads it any more."""
        with self._lock:
            file = self._open.pop(name, None)
            if file is not None:
                _let_go(file)

    def close(self) -> None:
        """Close all files; reads under way end first."""
        with self._lock:
            for file in self._open.values():
                _let_go(file)
            self._open.clear()

    def open(self, path: Path, flags: int) -> int:
        """Ask the kernel for a descriptor."""
        return os.open(path, flags | os.O_CLOEXEC)

    def preadv(
        self, descriptor: int, parts: Sequence[memoryview], offset: int, flags: int = 0
    ) -> int:
        """Ask the kernel once; it may give less than was asked for."""
        return os.preadv(descriptor, parts, offset, flags)

    def _fill_parts(
        self, file: _OpenFile, run: FileRun, guard: ReadGuard | None, filling: Filling
    ) -> int:
        if guard is None and not (file.is_direct and not is_aligned(run)):
            self._read_straight(file, run, filling)
            return filling.filled
        if guard is None:
            guard = ReadGuard()
        elif not file.is_direct:
            self._read_cached(file, run, guard, filling)
        if filling.filled < run.size_bytes:
            self._read_bounced(file, run, guard, filling)
        return filling.filled

    def _read_straight(self, file: _OpenFile, run: FileRun, filling: Filling) -> None:
        filling.add(count := self.preadv(file.descriptor, run.parts, run.start.offset))
        while count and filling.filled < run.size_bytes:
            left = beyond(run.parts, filling.filled)
            count = self.preadv(file.descriptor, left, run.start.offset + filling.filled)
            filling.add(count)

    def _read_cached(
        self, file: _OpenFile, run: FileRun, guard: ReadGuard, filling: Filling
    ) -> None:
        """Take what is in memory already, without waiting for a disk."""
        for part, size_bytes in warm_slices(run.parts):
            offset = run.start.offset + filling.filled
            with guard as may_fill:
                if not may_fill:
                    return
                try:
                    count = self.preadv(file.descriptor, run.parts[part], offset, os.RWF_NOWAIT)
                except OSError as error:
                    if error.errno in _CANT:
                        return
                    raise
                filling.add(count)
            if count < size_bytes:
                return

    def _read_bounced(
        self, file: _OpenFile, run: FileRun, guard: ReadGuard, filling: Filling
    ) -> None:
        """Read the rest of a run into memory of our own, piece by piece, and copy it."""
        with self._bounce() as bounce:
            while left_bytes := run.size_bytes - filling.filled:
                start = run.start.offset + filling.filled
                skipped = start % ALIGN_BYTES  # O_DIRECT begins and ends at multiples
                wanted = min(BOUNCE_BYTES, _aligned(skipped + left_bytes))
                count = self._fill(file, bounce[:wanted], start - skipped)
                fresh = min(count - skipped, left_bytes)
                with guard as may_fill:
                    if fresh <= 0 or not may_fill:
                        return
                    left = beyond(run.parts, filling.filled)
                    _scatter(bounce[skipped : skipped + fresh], left)
                    filling.add(fresh)

    def _fill(self, file: _OpenFile, into: memoryview, offset: int) -> int:
        """Read until memory is full or the file ends; O_DIRECT goes on at multiples only."""
        filled = 0
        while filled < len(into):
            count = self.preadv(file.descriptor, [into[filled:]], offset + filled)
            filled += count
            if count == 0 or (file.is_direct and count % ALIGN_BYTES):
                break
        return filled

    def _acquire(self, name: str) -> _OpenFile:
        with self._lock:
            file = self._open.get(name)
            if file is not None:
                self._open.move_to_end(name)
                file.readers += 1
                return file
        opened = self._open_file(name)
        with self._lock:
            file = self._open.setdefault(name, opened)
            file.readers += 1
            if file is not opened:  # somebody was faster
                os.close(opened.descriptor)
            if len(self._open) > self._descriptors_max:
                _let_go(self._open.popitem(last=False)[1])
            return file

    def _release(self, file: _OpenFile) -> None:
        with self._lock:
            file.readers -= 1
            if not file.readers and not file.is_cached:
                os.close(file.descriptor)

    def _open_file(self, name: str) -> _OpenFile:
        path = self.folder / name
        if self.is_direct:
            try:
                descriptor = self.open(path, os.O_RDONLY | os.O_DIRECT)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self.takes_direct = False
            else:
                return _OpenFile(descriptor, is_direct=True)
        return _OpenFile(self.open(path, os.O_RDONLY), is_direct=False)

    @contextmanager
    def _bounce(self) -> Iterator[memoryview]:
        """Memory of our own, page by page; waits while all of it is in use."""
        with self._bounces_left:
            try:
                bounce = self._bounces.pop()
            except IndexError:
                bounce = memoryview(mmap.mmap(-1, BOUNCE_BYTES))
            try:
                yield bounce
            finally:
                self._bounces.append(bounce)


def is_aligned(run: FileRun) -> bool:
    """Return whether O_DIRECT can fill a run's parts where they are."""
    return run.start.offset % ALIGN_BYTES == 0 and all(
        len(part) % ALIGN_BYTES == 0 and _address(part) % ALIGN_BYTES == 0 for part in run.parts
    )


def _address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGN_BYTES) * ALIGN_BYTES


def _scatter(source: memoryview, parts: Sequence[memoryview]) -> None:
    """Copy bytes to the start of some parts, as far as they go."""
    at = 0
    for part in parts:
        count = min(len(part), len(source) - at)
        part[:count] = source[at : at + count]
        at += count
        if at == len(source):
            break


def _let_go(file: _OpenFile) -> None:
    """Close a file that is not kept any more; its last reader does, where there is one."""
    file.is_cached = False
    if not file.readers:
        os.close(file.descriptor)
