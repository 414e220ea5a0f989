"""
A row: one way to move the blocks of a load. Not pure.

To add one: subclass `Row`, and name it in `rows/catalogue.py`. `prepare` may take its time; `run`
is what is measured, and it moves each block of the load once. The bench checks after the first
round that a row did: `is_done` says so, for a row that reads by looking into the destination.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum

from bench.datapath.load import Load


class RowUnavailableError(Exception):
    """A way of moving bytes that is not to be had on this machine; the text says why."""


class Group(Enum):
    """What a row is compared within; the value is the heading."""

    MEMORY = "memory"
    DRAM_READ = "DRAM read"
    DRAM_WRITE = "DRAM write"
    SSD_CACHED = "SSD read, cached"
    SSD_DIRECT = "SSD read, O_DIRECT"
    MIXED_READ = "DRAM + SSD read"
    GRPC_READ = "gRPC read"
    GRPC_WRITE = "gRPC write"


class Row(ABC):
    """
    One way to move blocks.

    Attributes:
        name: Unlike any other row's.
        family: Rows of one family are the modes of one thing, of which the best counts; a row
            whose family is empty is the only mode there is.
    """

    name: str
    group: Group
    family: str = ""

    @property
    def pids(self) -> Sequence[int]:
        """The processes whose CPU and memory count beside that of the bench's own."""
        return ()

    @abstractmethod
    async def prepare(self, load: Load) -> None:
        """
        Get ready to move this load: connect, store what will be read.

        Raises:
            RowUnavailableError: If it can't be done here.
        """

    @abstractmethod
    async def run(self) -> None:
        """Move every block once."""

    @abstractmethod
    async def is_done(self) -> bool:
        """Whether the bytes are where they should be after the first `run`."""

    async def close(self) -> None:
        """Let go of what `prepare` took; called once, also after a `prepare` that failed."""
        return


class ReadRow(Row):
    """A row that fills the destination."""

    load: Load

    async def prepare(self, load: Load) -> None:
        """Keep the load."""
        self.load = load

    async def is_done(self) -> bool:
        """Whether the destination holds the source's bytes; it was wiped before."""
        return self.load.has_arrived()
