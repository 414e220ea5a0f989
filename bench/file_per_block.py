"""
One file a block: the layout that lost to slab files, kept so that the comparison can be repeated.

A block is a file in a folder of its key's first byte: its frame, padded to a page, then the
payload. It is written as `.part` and renamed when it is whole.
"""

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cachenode.store import CopyRead, CopyWrite
from hearthkv.core.block_frame import BlockFrame, decode_frame, encode_frame
from hearthkv.core.checksum import block_checksum

HEAD_BYTES: Final = 4096  # so that O_DIRECT can put the payload where it belongs


class FilePerBlock:
    """The blocks in one folder; everything the product's store does, and in the same order."""

    def __init__(self, folder: Path, *, is_direct: bool) -> None:
        self.folder = folder
        self._flags = os.O_RDONLY | (os.O_DIRECT if is_direct else 0)
        self._head = memoryview(mmap.mmap(-1, HEAD_BYTES))

    def write(self, writes: Sequence[CopyWrite]) -> None:
        """Write blocks."""
        for write in writes:
            target = self._path(write.frame.key, write.frame.sequence)
            part = f"{target}.part"
            try:
                descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            except FileNotFoundError:
                os.mkdir(os.path.dirname(part))  # noqa: PTH102, PTH120  # as fast as can be
                descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            head = encode_frame(write.frame).ljust(HEAD_BYTES, b"\0")
            size_bytes = len(head) + len(write.payload)
            assert os.writev(descriptor, (head, write.payload)) == size_bytes
            os.close(descriptor)
            os.rename(part, target)  # noqa: PTH104

    def read(self, reads: Sequence[CopyRead]) -> None:
        """Read blocks and check them."""
        for read in reads:
            ref = read.ref
            descriptor = os.open(self._path(ref.key, ref.sequence), self._flags)
            filled = os.preadv(descriptor, (self._head, read.into), 0)
            os.close(descriptor)
            assert filled == HEAD_BYTES + len(read.into)
            assert decode_frame(self._head).is_of(ref)
            assert block_checksum(ref.namespace_id, ref.key, read.into) == ref.checksum

    def scan(self) -> list[BlockFrame]:
        """Read the frames of all blocks, and see that their files are whole."""
        frames = []
        with os.scandir(self.folder) as leaves:
            folders = [leaf.path for leaf in leaves]
        for folder in folders:
            with os.scandir(folder) as entries:
                names = [entry.path for entry in entries]
            for name in names:
                descriptor = os.open(name, os.O_RDONLY)
                frame = decode_frame(os.pread(descriptor, 192, 0))
                size_bytes = os.fstat(descriptor).st_size
                os.close(descriptor)
                assert size_bytes == HEAD_BYTES + frame.spec.block_bytes
                assert name == self._path(frame.key, frame.sequence)
                frames.append(frame)
        return frames

    def erase(self, frames: Sequence[BlockFrame]) -> None:
        """Remove blocks."""
        for frame in frames:
            os.unlink(self._path(frame.key, frame.sequence))  # noqa: PTH108

    def close(self) -> None:
        """Nothing is open between two calls."""

    def _path(self, key: bytes, sequence: int) -> str:
        name = key.hex()
        return f"{self.folder}/{name[:2]}/{name}-{sequence:x}.block"
