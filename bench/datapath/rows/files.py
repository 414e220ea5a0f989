"""Plain reads of one file, block by block, into the destination. Not pure."""

import os
from concurrent.futures import ThreadPoolExecutor

import xxhash

from bench.datapath import names
from bench.datapath.load import Load
from bench.datapath.row import Group, ReadRow, RowUnavailableError
from hearthkv.core.direct_path import FileAddress
from hearthkv.datapath.file_reader import FileReader
from hearthkv.datapath.file_reads import FileRead, FileRun, runs_of

PARALLEL_READS = 4
PAGE_BYTES = 4096


class Preadv(ReadRow):
    """One `preadv` a block, out of the page cache."""

    name = names.PREADV
    group = Group.SSD_CACHED
    flags = os.O_RDONLY

    def __init__(self) -> None:
        self._file: int | None = None

    async def prepare(self, load: Load) -> None:
        """Open the file; the first read brings it into the page cache, if need be."""
        await super().prepare(load)
        self._file = os.open(load.path, self.flags)

    async def run(self) -> None:
        """Read, a block at a time."""
        for part in self.load.slices:
            self._read(part)

    def _read(self, part: slice) -> None:
        assert self._file is not None
        view = self.load.destination[part]
        count = os.preadv(self._file, [view], part.start)
        assert count == len(view), f"read {count} of {len(view)} bytes"

    async def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)


class PreadvChecked(Preadv):
    """The same, and a checksum of each block while it is in the processor's cache."""

    name = names.PREADV_CHECKED

    async def run(self) -> None:
        """Read and sum, a block at a time."""
        destination = self.load.destination
        for part in self.load.slices:
            self._read(part)
            xxhash.xxh3_64_intdigest(destination[part])


class DirectPreadv(Preadv):
    """One read after the other, past the page cache."""

    name = f"{names.O_DIRECT}, one at a time"
    family = names.O_DIRECT
    group = Group.SSD_DIRECT
    flags = os.O_RDONLY | os.O_DIRECT

    async def prepare(self, load: Load) -> None:
        """Open the file; not every file system can do so."""
        if load.block_bytes % PAGE_BYTES:
            raise RowUnavailableError(f"{load.block_bytes} is no multiple of {PAGE_BYTES}")
        try:
            await super().prepare(load)
        except OSError as error:
            raise RowUnavailableError(f"{load.path.parent}: {error.strerror}") from error


class ParallelDirectPreadv(DirectPreadv):
    """Several reads at once, past the page cache."""

    name = f"{names.O_DIRECT}, {PARALLEL_READS} at once"

    def __init__(self) -> None:
        super().__init__()
        self._threads = ThreadPoolExecutor(PARALLEL_READS)

    async def run(self) -> None:
        """Read in threads."""
        list(self._threads.map(self._read, self.load.slices))

    async def close(self) -> None:
        """End the threads, close the file."""
        self._threads.shutdown()
        await super().close()


class OurReads(ReadRow):
    """The reader that clients and nodes use: runs of neighbours, each block summed."""

    name = names.OURS_FILES
    group = Group.SSD_CACHED
    is_direct = False
    _reader: FileReader | None = None

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(PARALLEL_READS)

    async def prepare(self, load: Load) -> None:
        """Open the folder; not every file system can do so past the page cache."""
        if self.is_direct and load.block_bytes % PAGE_BYTES:
            raise RowUnavailableError(f"{load.block_bytes} is no multiple of {PAGE_BYTES}")
        await super().prepare(load)
        self._reader = FileReader(load.path.parent, is_direct=self.is_direct)

    async def run(self) -> None:
        """Read in threads."""
        destination = self.load.destination
        runs = runs_of(
            [
                FileRead(FileAddress(self.load.path.name, part.start), destination[part])
                for part in self.load.slices
            ]
        )
        list(self._threads.map(self._read, runs))

    def _read(self, run: FileRun) -> None:
        assert self._reader is not None
        filled = self._reader.read(run)
        assert filled == run.size_bytes, f"read {filled} of {run.size_bytes} bytes"
        for part in run.parts:
            xxhash.xxh3_64_intdigest(part)

    async def close(self) -> None:
        """End the threads, close the file."""
        self._threads.shutdown()
        if self._reader is not None:
            self._reader.close()


class OurDirectReads(OurReads):
    """The same past the page cache."""

    name = names.OURS_FILES_DIRECT
    group = Group.SSD_DIRECT
    is_direct = True
