"""Tests of `hearthkv.datapath.resp_sender`."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from hearthkv.datapath.resp_sender import SocketSender, TransportSender

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


async def received(theirs: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += await asyncio.get_running_loop().sock_recv(theirs, 1 << 20)
    return found


async def test_buffers_arrive_in_their_order(pair: Pair):
    sender = SocketSender(pair[0], pytest.fail)
    buffers = [bytes([number % 256]) * (number * 100) for number in range(1, 200)]
    sender.send(buffers)
    sender.send([b"end"])
    assert sender.queued_bytes == sum(map(len, buffers)) + 3
    assert sender.sent_bytes < sender.queued_bytes
    assert await received(pair[1], sender.queued_bytes) == b"".join(buffers) + b"end"
    assert sender.sent_bytes == sender.queued_bytes
    sender.close()


async def test_what_is_not_sent_is_the_callers_memory_and_no_copy(pair: Pair):
    sender = SocketSender(pair[0], pytest.fail)
    memory = bytearray(4 << 20)
    sender.send([memory])
    memory[-1] = 1
    assert (await received(pair[1], len(memory)))[-1] == 1
    sender.close()


async def test_a_closed_sender_forgets_what_is_not_sent(pair: Pair):
    sender = SocketSender(pair[0], pytest.fail)
    memory = bytearray(4 << 20)
    sender.send([memory])
    sender.close()
    memory.clear()  # which can't be done while a view of it is held
    await asyncio.sleep(0)
    assert sender.sent_bytes < sender.queued_bytes


async def test_a_lost_connection_is_told(pair: Pair):
    lost: list[OSError] = []
    sender = SocketSender(pair[0], lost.append)
    pair[1].close()
    sender.send([b"x"])
    assert [type(error) for error in lost] == [BrokenPipeError]
    sender.pause()
    sender.resume()
    sender.close()


class FakeTransport(asyncio.Transport):
    """Takes a number of pieces and then says that it is full."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.sender: TransportSender | None = None
        self.room = 2

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.pieces.append(bytes(data))
        self.room -= 1
        if not self.room:
            assert self.sender is not None
            self.sender.pause()


def test_a_transport_is_given_pieces_as_it_takes_them():
    transport = FakeTransport()
    sender = transport.sender = TransportSender(transport)
    value = bytes(range(256)) * 4096
    sender.send([b"head", value])
    assert [len(piece) for piece in transport.pieces] == [4, 256 * 1024]
    assert (sender.sent_bytes, sender.queued_bytes) == (4 + 256 * 1024, 4 + len(value))
    sender.send([b"end"])
    assert len(transport.pieces) == 2
    transport.room = 99
    sender.resume()
    assert b"".join(transport.pieces) == b"head" + value + b"end"
    assert max(map(len, transport.pieces)) == 256 * 1024


def test_a_closed_sender_gives_a_transport_nothing_more():
    transport = FakeTransport()
    sender = transport.sender = TransportSender(transport)
    sender.send([bytes(1 << 20)])
    sender.close()
    sender.resume()
    assert len(transport.pieces) == 2
