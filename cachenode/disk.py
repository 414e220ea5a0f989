"""
The folder of the SSD tier: each system call that the store makes in it, and no decision.

Nothing is synced: what the kernel has taken outlives the process. Every method may raise
OSError. Tests put disks in its place that are full, failing, or cut off in mid-work.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""Errors that mean: there is no space."""

_FOLDER_MODE, _FILE_MODE = 0o700, 0o600  # a KV cache holds what its users said
_PROBE_BYTES = 4096  # enough for a full disk to refuse
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # linux/falloc.h

_libc = ctypes.CDLL(None, use_errno=True)

Buffer = bytes | bytearray | memoryview


class Disk:
    """One folder, for one process. Names of files are relative to it."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self._lock: int | None = None

    def claim(self) -> None:
        """
        Make the folder if need be, try to write to it, and keep other nodes out of it.

        Raises:
            BlockingIOError: If another process has claimed it; a process that dies lets go.
        """
        self.folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        self.probe()
        lock = os.open(self.folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
        self._lock = lock

    def let_go(self) -> None:
        """Let others claim the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def probe(self) -> None:
        """Raise what stands in the way of writing to the folder."""
        descriptor = self.create("probe.part")
        try:
            self.write(descriptor, [bytes(_PROBE_BYTES)], 0)
        finally:
            self.close(descriptor)
            os.unlink(self.folder / "probe.part")  # noqa: PTH108  # as all else here

    def identity(self) -> tuple[int, int]:
        """Device and inode of the folder: another one has others."""
        status = self.folder.stat()
        return status.st_dev, status.st_ino

    def names(self, ending: str) -> list[str]:
        """Files whose name ends so, in order."""
        with os.scandir(self.folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(ending) and entry.is_file(follow_symlinks=False)
            )

    def create(self, name: str, size_bytes: int = 0) -> int:
        """Make a file of one hole, or empty one that is there, and return its descriptor."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(self.folder / name, flags, _FILE_MODE)
        try:
            os.ftruncate(descriptor, size_bytes)
        except OSError:
            self.close(descriptor)
            raise
        return descriptor

    def open(self, name: str) -> int:
        """Open a file for reading and writing, and return its descriptor."""
        return os.open(self.folder / name, os.O_RDWR | os.O_CLOEXEC)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    def remove(self, name: str) -> None:
        """Remove a file, whole or not at all, and free its bytes though others have it open."""
        path = self.folder / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            path.unlink()
            with contextlib.suppress(OSError):  # then they are free once nobody has it open
                self.empty(descriptor)
        finally:
            self.close(descriptor)

    def empty(self, descriptor: int) -> None:
        """Take all bytes from a file."""
        os.ftruncate(descriptor, 0)

    def sizes(self, descriptor: int) -> tuple[int, int]:
        """Length of a file, and bytes that it takes on disk."""
        status = os.fstat(descriptor)
        return status.st_size, status.st_blocks * 512

    def read(self, descriptor: int, size_bytes: int, offset: int) -> bytes:
        """Read until there are `size_bytes`, or the file ends."""
        found = b""
        while len(found) < size_bytes:
            piece = os.pread(descriptor, size_bytes - len(found), offset + len(found))
            if not piece:
                break
            found += piece
        return found

    def write(self, descriptor: int, buffers: Sequence[Buffer], offset: int) -> None:
        """Write buffers one after the other; the kernel may take them in several bites."""
        left = [memoryview(buffer) for buffer in buffers]
        while left:
            count = self.pwritev(descriptor, left, offset)
            offset += count
            while left and count >= len(left[0]):
                count -= len(left.pop(0))
            if left:
                left[0] = left[0][count:]

    def pwritev(self, descriptor: int, buffers: Sequence[Buffer], offset: int) -> int:
        """Offer buffers to the kernel once, and return how many bytes it took."""
        return os.pwritev(descriptor, buffers, offset)

    def punch(self, descriptor: int, offset: int, size_bytes: int) -> None:
        """Give bytes in a file back to the file system; they read as zeros from then on."""
        result = _libc.fallocate(
            ctypes.c_int(descriptor),
            ctypes.c_int(_KEEP_SIZE | _PUNCH_HOLE),
            ctypes.c_int64(offset),
            ctypes.c_int64(size_bytes),
        )
        if result:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
