"""Copies within memory, the ceiling of everything. Not pure."""

import mmap
from tempfile import NamedTemporaryFile

from bench.datapath import names
from bench.datapath.load import Load
from bench.datapath.row import Group, ReadRow, RowUnavailableError

SHARED_FOLDER = "/dev/shm"  # noqa: S108 - the kernel's own folder for shared memory


class Memcpy(ReadRow):
    """Copies each block from the source into the destination."""

    name = names.MEMCPY
    group = Group.MEMORY

    async def run(self) -> None:
        """Copy, a block at a time."""
        source, destination = self.load.source, self.load.destination
        for part in self.load.slices:
            destination[part] = source[part]


class SharedMemory(ReadRow):
    """Copies each block out of a file in memory that another process might have written."""

    name = names.SHARED_MEMORY
    group = Group.MEMORY

    def __init__(self) -> None:
        self._shared: mmap.mmap | None = None

    async def prepare(self, load: Load) -> None:
        """Write the file and map it, as a reader would: not to be written to."""
        await super().prepare(load)
        try:
            with NamedTemporaryFile(dir=SHARED_FOLDER, prefix=load.path.parent.name) as file:
                file.write(load.source)
                file.flush()
                self._shared = mmap.mmap(file.fileno(), load.total_bytes, prot=mmap.PROT_READ)
        except OSError as error:
            raise RowUnavailableError(f"{SHARED_FOLDER}: {error.strerror}") from error

    async def run(self) -> None:
        """Copy, a block at a time."""
        assert self._shared is not None
        destination = self.load.destination
        with memoryview(self._shared) as shared:
            for part in self.load.slices:
                destination[part] = shared[part]

    async def close(self) -> None:
        """Give the memory back."""
        if self._shared is not None:
            self._shared.close()
