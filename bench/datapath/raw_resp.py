"""
The least that a client of Redis can do, over a blocking socket: a floor. Not pure.

It takes for granted that all goes well, as no client may, and makes no checksum.
"""

import socket
from collections.abc import Sequence
from pathlib import Path

from bench.datapath.load import MIB, Load

OK = b"+OK\r\n"
CRLF = b"\r\n"
OUTSTANDING_BYTES = 4 * MIB
OUTSTANDING_MAX = 16


def window(block_bytes: int) -> int:
    """Return how many blocks to have under way: at least two, and not more than are of use."""
    return max(2, min(OUTSTANDING_MAX, OUTSTANDING_BYTES // block_bytes))


class RawResp:
    """Moves blocks into and out of a server over one connection."""

    def __init__(self, socket_path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(socket_path))

    def get(self, keys: Sequence[str], load: Load) -> None:
        """Read all blocks into the destination, with requests for a few ahead."""
        expected = _length(load.block_bytes)
        header, tail = bytearray(len(expected)), bytearray(len(CRLF))
        ahead = window(load.block_bytes)
        for key in keys[:ahead]:
            self._socket.sendall(_command(b"GET", key))
        for index, part in enumerate(load.slices):
            self._fill([memoryview(header), load.destination[part], memoryview(tail)])
            assert header == expected, bytes(header)
            for key in keys[index + ahead : index + ahead + 1]:
                self._socket.sendall(_command(b"GET", key))

    def set(self, keys: Sequence[str], load: Load) -> None:
        """Write all blocks from the source, with answers awaited a few behind."""
        behind = window(load.block_bytes)
        for index, (key, part) in enumerate(zip(keys, load.slices, strict=True)):
            head = b"*3\r\n" + _words(b"SET", key.encode()) + _length(load.block_bytes)
            self._send([memoryview(head), load.source[part], memoryview(CRLF)])
            if index >= behind:
                self._expect(OK)
        for _ in range(min(behind, load.block_count)):
            self._expect(OK)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete what is there of these."""
        for key in keys:
            self._socket.sendall(_command(b"UNLINK", key))
            assert self._socket.recv(4, socket.MSG_WAITALL) in {b":0\r\n", b":1\r\n"}

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _fill(self, views: list[memoryview]) -> None:
        while views:
            count, *_ = self._socket.recvmsg_into(views)
            assert count, "the server has hung up"
            views = _rest(views, count)

    def _send(self, views: list[memoryview]) -> None:
        while views:
            views = _rest(views, self._socket.sendmsg(views))

    def _expect(self, reply: bytes) -> None:
        answer = self._socket.recv(len(reply), socket.MSG_WAITALL)
        assert answer == reply, answer


def _command(name: bytes, key: str) -> bytes:
    return b"*2\r\n" + _words(name, key.encode())


def _words(*words: bytes) -> bytes:
    return b"".join(_length(len(word)) + word + CRLF for word in words)


def _length(size: int) -> bytes:
    return b"$%d\r\n" % size


def _rest(views: list[memoryview], count: int) -> list[memoryview]:
    """Return what is left after `count` bytes of the views, in order."""
    while views and count >= len(views[0]):
        count -= len(views[0])
        views = views[1:]
    return [views[0][count:], *views[1:]] if views else []
