"""
The memory that payloads pass through on their way: reused buffers, and one bound for them all.

A fresh buffer for every block would cost more than the reading of it, in page faults alone.
"""

import asyncio
from collections import defaultdict
from typing import Final

SMALLEST_BYTES: Final = 64 * 1024
"""Sizes are rounded up to this, or to a power of two above it, so that few sizes are kept."""

IDLE_BYTES_MAX: Final = 64 * 1024 * 1024
"""What is kept for the next caller; more than that goes back to the system."""


class Lease:
    """A buffer that somebody has for a while."""

    __slots__ = ("_memory", "_pool", "view")

    def __init__(self, pool: "BufferPool", memory: bytearray, size_bytes: int) -> None:
        self.view = memoryview(memory)[:size_bytes]
        """Its bytes, of exactly the size that was asked for; whatever was there before."""

        self._memory: bytearray | None = memory
        self._pool = pool

    def release(self) -> None:
        """Give the buffer back, once: whoever had a view of it must be done with that."""
        memory, self._memory = self._memory, None
        assert memory is not None
        self._pool.take_back(memory)


class BufferPool:
    """
    Lends buffers.

    Invariant (I3): `lent_bytes + idle_bytes <= bytes_max`, except where a single buffer is larger
    than that by itself: it is lent while nothing else is.

    Whoever holds a lease must not wait for another one, or two such could wait for each other.

    Args:
        bytes_max: Bytes of all buffers together, those that lie idle included.
    """

    def __init__(self, bytes_max: int) -> None:
        self.lent_bytes = 0
        self.idle_bytes = 0
        self._bytes_max = bytes_max
        self._idle: dict[int, list[bytearray]] = defaultdict(list)
        self._waiting: dict[asyncio.Future[Lease], int] = {}  # to bytes, in the order of arrival

    async def lend(self, size_bytes: int) -> Lease:
        """Lend a buffer, and wait for it where others have the memory; first come, first served."""
        lease = self.try_lend(size_bytes)
        if lease is not None:
            return lease
        promise: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
        self._waiting[promise] = size_bytes
        try:
            return await promise
        except asyncio.CancelledError:
            if promise.cancelled():
                self._waiting.pop(promise, None)
                self._serve()  # those behind it may need less
            else:
                promise.result().release()
            raise

    def try_lend(self, size_bytes: int) -> Lease | None:
        """Lend a buffer now; None where there is no memory, or others wait for it."""
        return None if self._waiting else self._lend(size_bytes)

    def take_back(self, memory: bytearray) -> None:
        """Take back what was lent. Called by `Lease.release`."""
        self.lent_bytes -= len(memory)
        self.idle_bytes += len(memory)
        self._idle[len(memory)].append(memory)
        self._free_idle(min(IDLE_BYTES_MAX, self._bytes_max - self.lent_bytes))
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            promise, size_bytes = next(iter(self._waiting.items()))
            if not promise.cancelled():
                lease = self._lend(size_bytes)
                if lease is None:
                    return
                promise.set_result(lease)
            del self._waiting[promise]

    def _lend(self, size_bytes: int) -> Lease | None:
        memory_bytes = max(SMALLEST_BYTES, 1 << (size_bytes - 1).bit_length())
        if self.lent_bytes and self.lent_bytes + memory_bytes > self._bytes_max:
            return None
        if self._idle[memory_bytes]:
            memory = self._idle[memory_bytes].pop()
            self.idle_bytes -= memory_bytes
        else:
            self._free_idle(self._bytes_max - self.lent_bytes - memory_bytes)
            memory = bytearray(memory_bytes)
        self.lent_bytes += memory_bytes
        return Lease(self, memory, size_bytes)

    def _free_idle(self, idle_bytes_max: int) -> None:
        """Let go of idle buffers, the largest first, until no more than so many bytes are left."""
        for memory_bytes in sorted(self._idle, reverse=True):
            idle = self._idle[memory_bytes]
            while idle and self.idle_bytes > max(idle_bytes_max, 0):
                idle.pop()
                self.idle_bytes -= memory_bytes
