"""Bytes over a unix socket between two Python processes and nothing else. Not pure."""

import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.datapath import names
from bench.datapath.child_process import ChildProcess
from bench.datapath.load import Load, digest
from bench.datapath.row import Group, Row

ORDER = struct.Struct("<cQQ")  # what to do, block bytes, block count
READ, WRITE, DIGEST = b"R", b"W", b"D"
ANSWER = struct.Struct("<Q")


class _RawSocket(Row):
    """A connection to the other process, which holds the same bytes."""

    load: Load

    def __init__(self) -> None:
        self._child: ChildProcess | None = None
        self._socket = socket.socket(socket.AF_UNIX)

    @property
    def pids(self) -> Sequence[int]:
        """The other process."""
        return () if self._child is None else (self._child.pid,)

    async def prepare(self, load: Load) -> None:
        """Start the other process and connect."""
        self.load = load
        place = load.path.with_name(f"{self.name.replace(' ', '-')}.sock")
        place.unlink(missing_ok=True)
        child = ("-m", "bench.datapath.raw_socket_child", place, load.path, str(load.total_bytes))
        self._child = await ChildProcess.start(
            sys.executable, *child, log_path=place.with_suffix(".log")
        )
        await self._child.listen()
        self._socket.connect(str(place))

    def _order(self, what: bytes) -> None:
        self._socket.sendall(ORDER.pack(what, self.load.block_bytes, self.load.block_count))

    def _answer(self) -> int:
        (number,) = ANSWER.unpack(self._socket.recv(ANSWER.size, socket.MSG_WAITALL))
        assert isinstance(number, int)
        return number

    async def close(self) -> None:
        """Hang up, end the other process."""
        self._socket.close()
        if self._child is not None:
            await self._child.close()


class RawRead(_RawSocket):
    """The other process sends block after block; `recv_into` fills the destination."""

    name = names.RAW_READ
    group = Group.DRAM_READ

    async def run(self) -> None:
        """Receive all blocks."""
        self._order(READ)
        receive(self._socket, self.load.destination)

    async def is_done(self) -> bool:
        """Whether the destination holds the source's bytes."""
        return self.load.has_arrived()


class RawWrite(_RawSocket):
    """Sends block after block; the other process receives each into its place."""

    name = names.RAW_WRITE
    group = Group.DRAM_WRITE

    async def run(self) -> None:
        """Send all blocks, and wait until the last has arrived."""
        self._order(WRITE)
        for part in self.load.slices:
            self._socket.sendall(self.load.source[part])
        self._answer()

    async def is_done(self) -> bool:
        """Whether the other process has the source's bytes; it began with none."""
        self._order(DIGEST)
        return self._answer() == digest(self.load.source)


def receive(connection: socket.socket, destination: memoryview) -> None:
    """Fill the destination; the connection must bring at least as many bytes."""
    at = 0
    while at < len(destination):
        count = connection.recv_into(destination[at:])
        assert count, f"the connection ended after {at} of {len(destination)} bytes"
        at += count


def source_bytes(path: Path, total_bytes: int) -> bytes:
    """Return the beginning of the file."""
    with path.open("rb") as file:
        return file.read(total_bytes)
