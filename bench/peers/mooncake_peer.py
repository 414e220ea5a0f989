"""
Mooncake Store over TCP: a master, a process with the memory, and this one as the client. Not pure.

Runs in an environment that has mooncake.
"""

import ctypes
import mmap
import subprocess
import sys

from bench.peers.conversation import Mover, Task, converse
from bench.peers.mooncake_setup import connect, free_port, start_master

ROOM = 3
"""Memory lent over bytes written: what was removed may be given back late."""


class MooncakeMover(Mover):
    """Moves all blocks in one batch between a registered buffer and the other process."""

    def __init__(self, task: Task) -> None:
        port, total = free_port(), task.total_bytes
        self._master = start_master(port)
        self._holder = _start_holder(port, ROOM * total)
        self.store_pids = (self._master.pid, self._holder.pid)
        self._store = connect(port, segment_bytes=0)
        self._source = task.source()
        self._buffer = mmap.mmap(-1, total)
        self._buffer[:] = self._source
        # Kept alive as long as addresses within it are in use.
        self._anchor = ctypes.c_char.from_buffer(self._buffer)
        start = ctypes.addressof(self._anchor)
        self._keys = [f"block-{index}" for index in range(task.block_count)]
        self._places = list(range(start, start + total, task.block_bytes))
        self._sizes = [task.block_bytes] * task.block_count
        _must_be_zero("register_buffer", [self._store.register_buffer(start, total)])
        if task.kind == "read":
            self.write()
            self._buffer[:] = bytes(total)

    def read(self) -> None:
        """Read all blocks into the buffer."""
        counts = self._store.batch_get_into(self._keys, self._places, self._sizes)
        if list(counts) != self._sizes:
            raise RuntimeError(f"batch_get_into answers {sorted(set(counts))}, not the sizes")

    def write(self) -> None:
        """Remove what is there, since it would not be written again, and write all blocks."""
        self._store.remove_all(True)
        codes = self._store.batch_put_from(self._keys, self._places, self._sizes)
        _must_be_zero("batch_put_from", codes)

    def compare(self) -> bool:
        """Whether the source's bytes come out of the store."""
        self._buffer[:] = bytes(len(self._buffer))
        self.read()
        return self._buffer[:] == self._source

    def close(self) -> None:
        """Leave the store, end its processes."""
        self._store.close()
        for process in (self._holder, self._master):
            process.kill()
            process.wait()


def _start_holder(port: int, segment_bytes: int) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen(
        [sys.executable, "-m", "bench.peers.mooncake_store", str(port), str(segment_bytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    return holder


def _must_be_zero(call: str, codes: list[int]) -> None:
    if any(codes):
        raise RuntimeError(f"{call} answers {sorted(set(codes))}, must be 0")


if __name__ == "__main__":
    converse(MooncakeMover)
