"""
LMCache's C++ client of Redis, as its `resp://` connector uses it. Not pure.

Runs in an environment that has lmcache; it knows TCP only.
"""

import asyncio

from lmcache.v1.storage_backend.native_clients.resp_client import (  # type: ignore[import-not-found]
    RESPClient,
)

from bench.peers.conversation import Mover, Task, converse


class LmCacheMover(Mover):
    """Moves all blocks in one batch, which the client cuts up among its threads."""

    def __init__(self, task: Task) -> None:
        self._source = task.source()
        self._kind = task.kind
        # Names as the bench has them, see `load.py`.
        prefix = "bench" if task.kind == "read" else "written"
        self._keys = [f"{prefix}:{task.block_bytes}:{index}" for index in range(task.block_count)]
        self._buffer = bytearray(self._source)
        if task.kind == "read":
            self._wipe()
        view = memoryview(self._buffer)
        starts = range(0, task.total_bytes, task.block_bytes)
        self._views = [view[at : at + task.block_bytes] for at in starts]
        self._loop = asyncio.new_event_loop()
        self._client = RESPClient("127.0.0.1", task.redis_port, task.threads, self._loop)

    def read(self) -> None:
        """Read all blocks into the buffer."""
        self._loop.run_until_complete(self._client.batch_get(self._keys, self._views))

    def write(self) -> None:
        """Write all blocks out of the buffer."""
        self._loop.run_until_complete(self._client.batch_set(self._keys, self._views))

    def compare(self) -> bool:
        """Whether the buffer has the source's bytes, for a write: once they are read again."""
        if self._kind == "write":
            self._wipe()
            self.read()
        return self._buffer == self._source

    def close(self) -> None:
        """Hang up."""
        self._client.close()
        self._loop.close()

    def _wipe(self) -> None:
        self._buffer[:] = bytes(len(self._buffer))


if __name__ == "__main__":
    converse(LmCacheMover)
