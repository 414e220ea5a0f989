"""Slab files in a folder of a test, disks that fail, and what really lies on a disk."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Event

from cachenode.disk import Buffer, Disk
from cachenode.slab_files import SlabFiles
from cachenode.store import CopyWrite
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.checksum import block_checksum
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier
from hearthkv.datapath.file_reader import FileReader
from hearthkv.datapath.file_reads import FileRead, runs_of

LIMIT_BYTES = 1 << 40
SPEC = NamespaceSpec(b"n" * 16, 16, 5000)
OTHER_SPEC = NamespaceSpec(b"o" * 16, 16, 100)


class FullDisk(Disk):
    """A disk that takes no more bytes when it is told so, half-way through a write."""

    error_number = 0

    def pwritev(self, descriptor: int, buffers: Sequence[Buffer], offset: int) -> int:
        if self.error_number:
            first = memoryview(buffers[0])
            super().pwritev(descriptor, [first[: len(first) // 2]], offset)
            raise OSError(self.error_number, os.strerror(self.error_number))
        return super().pwritev(descriptor, buffers, offset)


class Killed(BaseException):
    """The process is killed."""


class FragileDisk(Disk):
    """A disk on which one system call that changes something fails, a write half-way through."""

    def __init__(self, folder: Path, fails_at: int, error: BaseException) -> None:
        super().__init__(folder)
        self.calls = 0
        self.fails_at = fails_at
        self.error = error

    @property
    def has_failed(self) -> bool:
        return self.calls > self.fails_at

    def create(self, name: str, size_bytes: int = 0) -> int:
        self._step()
        descriptor = super().create(name, size_bytes)
        try:
            self._step()
        except BaseException:
            self.close(descriptor)
            raise
        return descriptor

    def pwritev(self, descriptor: int, buffers: Sequence[Buffer], offset: int) -> int:
        try:
            self._step()
        except BaseException:
            first = memoryview(buffers[0])
            super().pwritev(descriptor, [first[: len(first) // 2]], offset)
            raise
        return super().pwritev(descriptor, buffers, offset)

    def punch(self, descriptor: int, offset: int, size_bytes: int) -> None:
        self._step()
        super().punch(descriptor, offset, size_bytes)

    def remove(self, name: str) -> None:
        self._step()
        super().remove(name)

    def empty(self, descriptor: int) -> None:
        self._step()
        super().empty(descriptor)

    def _step(self) -> None:
        self.calls += 1
        if self.calls == self.fails_at + 1:
            raise self.error


def slab_files(
    place: Path | Disk, *, limit_bytes: int = LIMIT_BYTES, is_direct: bool = False
) -> SlabFiles:
    """Open a folder, or a disk that was made for it."""
    disk = Disk(place) if isinstance(place, Path) else place
    reader = FileReader(disk.folder, is_direct=is_direct)
    return SlabFiles(disk, reader, limit_bytes=limit_bytes)


def slabs_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.slab"))


def payload_of(number: int, spec: NamespaceSpec = SPEC) -> bytes:
    return bytes((number + i) % 251 for i in range(spec.block_bytes))


def frame_of(number: int, spec: NamespaceSpec = SPEC) -> BlockFrame:
    key = number.to_bytes(2, "big") * 8
    checksum = block_checksum(spec.namespace_id, key, payload_of(number, spec))
    return BlockFrame(spec, key, b"", checksum, sequence=1000 + number)


def write(
    files: SlabFiles, numbers: Iterable[int], spec: NamespaceSpec = SPEC
) -> list[OSError | None]:
    writes = [CopyWrite(frame_of(number, spec), payload_of(number, spec)) for number in numbers]
    return files.write(writes, Event())


def erase(files: SlabFiles, numbers: Iterable[int], spec: NamespaceSpec = SPEC) -> None:
    files.erase([frame_of(number, spec).ref(Tier.SSD) for number in numbers])


def scan(files: SlabFiles) -> tuple[set[tuple[NamespaceSpec, int]], int]:
    """Which blocks are found, and how much was removed."""
    found: set[tuple[NamespaceSpec, int]] = set()
    removed = 0
    for name in files.begin_scan():
        frames, count = files.scan(name)
        found |= {(frame.spec, frame.sequence - 1000) for frame in frames}
        removed += count
    files.end_scan()
    return found, removed


def read(files: SlabFiles, number: int, spec: NamespaceSpec = SPEC) -> bytes | None:
    """A block's payload; None where it is not there, or not what was written (I1)."""
    frame = frame_of(number, spec)
    (address,) = files.locate([frame.ref(Tier.SSD)])
    if address is None:
        return None
    into = memoryview(bytearray(spec.block_bytes))
    (run,) = runs_of([FileRead(address, into)])
    if files.reader.read(run) < spec.block_bytes:
        return None
    is_right = block_checksum(spec.namespace_id, frame.key, into) == frame.checksum
    return bytes(into) if is_right else None


def bytes_on_disk(folder: Path) -> int:
    """What slab files take in pages of their file system, holes left out."""
    return sum(map(_data_bytes, slabs_in(folder)))


def _data_bytes(path: Path) -> int:
    size_bytes, data_bytes, hole = path.stat().st_size, 0, 0
    descriptor = os.open(path, os.O_RDONLY)
    try:
        while hole < size_bytes:
            try:
                data = os.lseek(descriptor, hole, os.SEEK_DATA)
            except OSError:  # ENXIO: no data from here on
                break
            hole = os.lseek(descriptor, data, os.SEEK_HOLE)
            data_bytes += hole - data
    finally:
        os.close(descriptor)
    return data_bytes
