"""A bare stream of grpc.aio: the same chunks as bytes, and no messages around them. Not pure."""

import sys
from collections.abc import AsyncIterator, Sequence

from grpc import aio

from bench.datapath import names
from bench.datapath.child_process import ChildProcess
from bench.datapath.load import Load, digest
from bench.datapath.row import Group, Row
from hearthkv.core.block_io import CHUNK_BYTES_MAX

SERVICE = "bench.Stream"
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


def identity(message: bytes) -> bytes:
    """Return what was given: what goes over the wire is what the caller has."""
    return message


class _GrpcStream(Row):
    load: Load

    def __init__(self) -> None:
        self._child: ChildProcess | None = None
        self._channel: aio.Channel | None = None

    @property
    def pids(self) -> Sequence[int]:
        """The server's process."""
        return () if self._child is None else (self._child.pid,)

    async def prepare(self, load: Load) -> None:
        """Start the server and connect to it."""
        self.load = load
        log_path = load.path.with_name(f"{self.name.replace(' ', '-')}.log")
        sizes = (str(load.total_bytes), str(chunk_bytes(load)))
        command = (sys.executable, "-m", "bench.datapath.grpc_child", load.path, *sizes)
        self._child = await ChildProcess.start(*command, log_path=log_path)
        hello = await self._child.listen()
        self._channel = aio.insecure_channel(f"127.0.0.1:{hello['port']}", options=OPTIONS)

    async def close(self) -> None:
        """Hang up, end the server."""
        if self._channel is not None:
            await self._channel.close()
        if self._child is not None:
            await self._child.close()


class GrpcRead(_GrpcStream):
    """The server streams chunks; each is copied into the destination."""

    name = names.GRPC_READ
    group = Group.GRPC_READ

    async def run(self) -> None:
        """Receive all chunks."""
        assert self._channel is not None
        read: aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(
            f"/{SERVICE}/Read", request_serializer=identity, response_deserializer=identity
        )
        at = 0
        async for chunk in read(b""):
            self.load.destination[at : at + len(chunk)] = chunk
            at += len(chunk)

    async def is_done(self) -> bool:
        """Whether the destination holds the source's bytes."""
        return self.load.has_arrived()


class GrpcWrite(_GrpcStream):
    """Streams chunks, each made into bytes first; the server copies each into its memory."""

    name = names.GRPC_WRITE
    group = Group.GRPC_WRITE

    async def run(self) -> None:
        """Send all chunks."""
        assert self._channel is not None
        write = self._channel.stream_unary(
            f"/{SERVICE}/Write", request_serializer=identity, response_deserializer=identity
        )
        await write(self._chunks())

    async def _chunks(self) -> AsyncIterator[bytes]:
        size = chunk_bytes(self.load)
        for at in range(0, self.load.total_bytes, size):
            yield bytes(self.load.source[at : at + size])

    async def is_done(self) -> bool:
        """Whether the server has the source's bytes; it began with none."""
        assert self._channel is not None
        ask = self._channel.unary_unary(
            f"/{SERVICE}/Digest", request_serializer=identity, response_deserializer=identity
        )
        return int(await ask(b"")) == digest(self.load.source)


def chunk_bytes(load: Load) -> int:
    """Return the size of a chunk: that of a block, or of what the contract allows."""
    return min(load.block_bytes, CHUNK_BYTES_MAX)
