"""
One block, one file: the blocking half of the SSD store. Called from its threads only.

A copy of a block lies in `NAMESPACE/KK/KEY-SEQUENCE.block`, all in hex, KK being the key's
first byte. It is written as `.part` and renamed when it is whole, so a killed node leaves a
`.part` and never half a `.block`. Nothing is synced: what the kernel has taken outlives the
process, and what a power cut tears fails its checksum, which is a miss.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from hearthkv.core.block_frame import (
    FRAME_BYTES,
    BlockFrame,
    check_block,
    decode_frame,
    encode_frame,
)
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.errors import FrameError

_BLOCK, _PART = ".block", ".part"
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600  # a KV cache holds what its users said
_PROBE_BYTES = 4096  # enough for a full disk to refuse


class BlockFiles:
    """The block files under one folder. Every method may raise OSError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: int | None = None

    def claim(self) -> None:
        """
        Make the folder if need be, try to write to it, and keep other nodes out of it.

        Raises:
            BlockingIOError: If another process has claimed it; a process that dies lets go.
        """
        self.folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        self.check()
        lock = os.open(self.folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
        self._lock = lock

    def close(self) -> None:
        """Let others claim the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, frame: BlockFrame, payload: bytes | bytearray | memoryview) -> None:
        """Write a block; on failure nothing is left of it."""
        target = self._path(frame.spec.namespace_id, frame.key, frame.sequence)
        part = target.with_suffix(_PART)
        try:
            try:
                descriptor = _create(part)
            except FileNotFoundError:
                self.folder.stat()  # where the disk is gone, no folder is made in its place
                target.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
                descriptor = _create(part)
            try:
                self.write_all(descriptor, encode_frame(frame), memoryview(payload))
            finally:
                os.close(descriptor)
            part.rename(target)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise

    def write_all(self, descriptor: int, frame: bytes, payload: memoryview) -> None:
        """Write a frame and its payload; the kernel may take them in several bites."""
        size_bytes = len(frame) + len(payload)
        written = os.writev(descriptor, (frame, payload))
        while written < size_bytes:
            if written < len(frame):
                written += os.writev(descriptor, (frame[written:], payload))
            else:
                written += os.write(descriptor, payload[written - len(frame) :])

    def read(self, ref: BlockRef) -> memoryview:
        """
        Read a block's payload.

        Raises:
            FrameError: If what lies there is not that block.
            FileNotFoundError: If there is no such file.
        """
        descriptor = os.open(
            self._path(ref.namespace_id, ref.key, ref.sequence), os.O_RDONLY | os.O_CLOEXEC
        )
        try:
            stored = bytearray(os.fstat(descriptor).st_size)
            filled = 0
            while filled < len(stored):
                count = os.preadv(descriptor, [memoryview(stored)[filled:]], filled)
                if count == 0:
                    break
                filled += count
        finally:
            os.close(descriptor)
        return check_block(memoryview(stored)[:filled], ref)

    def erase(self, refs: Sequence[BlockRef]) -> None:
        """Remove blocks; those that are not there are passed over."""
        for ref in refs:
            self._path(ref.namespace_id, ref.key, ref.sequence).unlink(missing_ok=True)

    def leaves(self) -> list[Path]:
        """The folders that hold block files."""
        namespaces = _hex_folders(self.folder)
        return [leaf for namespace in namespaces for leaf in _hex_folders(namespace)]

    def scan(self, leaves: Sequence[Path]) -> tuple[list[BlockFrame], int]:
        """
        Read the frames in some leaves, and remove files that a crash or damage left.

        Files with other endings than ours are left alone.

        Returns:
            The sound frames, and how many files were removed.
        """
        frames: list[BlockFrame] = []
        removed = 0
        for leaf in leaves:
            with os.scandir(leaf) as entries:
                names = [entry.path for entry in entries]
            for name in names:
                if name.endswith(_BLOCK):
                    frame = self._sound_frame(name)
                    if frame is not None:
                        frames.append(frame)
                        continue
                elif not name.endswith(_PART):
                    continue
                os.unlink(name)  # noqa: PTH108  # a Path a file would double the scan's time
                removed += 1
        return frames, removed

    def check(self) -> None:
        """Raise what stands in the way of writing to the folder."""
        probe = self.folder / f"probe{_PART}"
        descriptor = _create(probe)
        try:
            self.write_all(descriptor, b"", memoryview(bytes(_PROBE_BYTES)))
        finally:
            os.close(descriptor)
            probe.unlink(missing_ok=True)

    def _sound_frame(self, name: str) -> BlockFrame | None:
        """The frame of a file that has its name and its size; None for any other."""
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            head = os.pread(descriptor, FRAME_BYTES, 0)
            size_bytes = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        try:
            frame = decode_frame(head)
        except FrameError:
            return None
        is_whole = size_bytes == frame.stored_bytes
        tail = _tail(frame.spec.namespace_id, frame.key, frame.sequence)
        return frame if is_whole and name.endswith(tail) else None

    def _path(self, namespace_id: bytes, key: bytes, sequence: int) -> Path:
        return self.folder / _tail(namespace_id, key, sequence)


def _tail(namespace_id: bytes, key: bytes, sequence: int) -> str:
    name = key.hex()
    return f"{namespace_id.hex()}/{name[:2]}/{name}-{sequence:x}{_BLOCK}"


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)


def _hex_folders(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return (folder / name for name in names if _is_hex(name))


def _is_hex(name: str) -> bool:
    return len(name) % 2 == 0 and all(letter in "0123456789abcdef" for letter in name)
