"""Slab files in a folder of a test, and disks that fail."""

import os
from collections.abc import Sequence
from pathlib import Path

from cachenode.disk import Buffer, Disk
from cachenode.slab_files import SlabFiles
from hearthkv.datapath.file_reader import FileReader

LIMIT_BYTES = 1 << 40


class FullDisk(Disk):
    """A disk that takes no more bytes when it is told so, half-way through a write."""

    error_number = 0

    def pwritev(self, descriptor: int, buffers: Sequence[Buffer], offset: int) -> int:
        if self.error_number:
            first = memoryview(buffers[0])
            super().pwritev(descriptor, [first[: len(first) // 2]], offset)
            raise OSError(self.error_number, os.strerror(self.error_number))
        return super().pwritev(descriptor, buffers, offset)


def slab_files(
    place: Path | Disk, *, limit_bytes: int = LIMIT_BYTES, is_direct: bool = False
) -> SlabFiles:
    """Open a folder, or a disk that was made for it."""
    disk = Disk(place) if isinstance(place, Path) else place
    reader = FileReader(disk.folder, is_direct=is_direct)
    return SlabFiles(disk, reader, limit_bytes=limit_bytes)


def slabs_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.slab"))
