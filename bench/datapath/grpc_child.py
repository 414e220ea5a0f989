"""
The server of a bare gRPC stream. Not pure.

`python -m bench.datapath.grpc_child FILE BYTES CHUNK_BYTES`
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
from grpc import aio

from bench.datapath import child_side
from bench.datapath.load import digest
from bench.datapath.rows.grpc_stream import OPTIONS, SERVICE, identity
from bench.datapath.rows.raw_socket import source_bytes

Context = aio.ServicerContext[bytes, bytes]


class Stream:
    """Sends its chunks, which are bytes already, and copies what it gets into one place."""

    def __init__(self, source: bytes, chunk_bytes: int) -> None:
        starts = range(0, len(source), chunk_bytes)
        self._chunks = [source[at : at + chunk_bytes] for at in starts]
        self._store = memoryview(bytearray(len(source)))

    async def read(self, _: bytes, __: Context) -> AsyncIterator[bytes]:
        """Send all chunks."""
        for chunk in self._chunks:
            yield chunk

    async def write(self, chunks: AsyncIterator[bytes], _: Context) -> bytes:
        """Take all chunks."""
        at = 0
        async for chunk in chunks:
            self._store[at : at + len(chunk)] = chunk
            at += len(chunk)
        return b""

    async def digest(self, _: bytes, __: Context) -> bytes:
        """Say what was written."""
        return b"%d" % digest(self._store)


async def main(source: bytes, chunk_bytes: int) -> None:
    """Serve until stdin ends."""
    replies, stream = child_side.replies(), Stream(source, chunk_bytes)
    server = aio.server(options=OPTIONS)
    handlers = {
        "Read": grpc.unary_stream_rpc_method_handler(stream.read, identity, identity),
        "Write": grpc.stream_unary_rpc_method_handler(stream.write, identity, identity),
        "Digest": grpc.unary_unary_rpc_method_handler(stream.digest, identity, identity),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    child_side.say(replies, {"port": port})
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(main(source_bytes(Path(sys.argv[1]), int(sys.argv[2])), int(sys.argv[3])))
