"""What every row moves: the same blocks, from one source or into one destination. Not pure."""

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import xxhash

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Load:
    """
    The blocks of one block size.

    `source`, and the file at `path`, hold the blocks one after the other. `destination` has the
    same size; it begins on a page, and so does every block whose size is a multiple of a page.
    """

    block_bytes: int
    block_count: int
    source: memoryview
    destination: memoryview
    path: Path

    @property
    def total_bytes(self) -> int:
        """Bytes that one round moves."""
        return self.block_bytes * self.block_count

    @property
    def slices(self) -> Iterator[slice]:
        """Where each block is, in the source and in the destination."""
        starts = range(0, self.total_bytes, self.block_bytes)
        return (slice(start, start + self.block_bytes) for start in starts)

    @property
    def keys(self) -> list[str]:
        """The names under which a key-value store has the blocks, for those who read."""
        return [f"bench:{self.block_bytes}:{index}" for index in range(self.block_count)]

    @property
    def written_keys(self) -> list[str]:
        """The names under which rows write, so that what others read stays as it is."""
        return [f"written:{self.block_bytes}:{index}" for index in range(self.block_count)]

    def clear(self) -> None:
        """Wipe the destination, so that nothing is taken for read that is left from before."""
        self.destination[:] = bytes(self.total_bytes)

    def has_arrived(self) -> bool:
        """Whether the destination holds the source's bytes."""
        return digest(self.destination) == digest(self.source)


class Bytes:
    """The memory and the file that the loads of all block sizes share, one after the other."""

    def __init__(self, path: Path, total_bytes: int) -> None:
        self._path = path
        self._source = mmap.mmap(-1, total_bytes)
        self._destination = mmap.mmap(-1, total_bytes)
        with Path("/dev/urandom").open("rb", buffering=0) as random:
            for at in range(0, total_bytes, MIB):
                self._source[at : at + MIB] = random.read(min(MIB, total_bytes - at))
        with path.open("wb") as file:
            file.write(self._source)
            # Reads past the page cache would have to wait for what is not on disk yet.
            os.fsync(file.fileno())

    def load(self, block_bytes: int) -> Load:
        """
        Return as many whole blocks as there is room for.

        Raises:
            ValueError: If there is no room for one.
        """
        count = len(self._source) // block_bytes
        if count == 0:
            text = f"a block of {block_bytes} bytes is larger than the data of {len(self._source)}"
            raise ValueError(text)
        part = slice(0, count * block_bytes)
        source, destination = memoryview(self._source)[part], memoryview(self._destination)[part]
        return Load(block_bytes, count, source, destination, self._path)


def digest(payload: memoryview) -> int:
    """Return a checksum by which two buffers are compared at the speed of memory."""
    return xxhash.xxh3_64_intdigest(payload)
