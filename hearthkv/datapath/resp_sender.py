"""How requests leave by a connection of an event loop: straight out of the caller's memory."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Protocol

from hearthkv.datapath.resp_wire import Buffer

_VECTOR_MAX: Final = 64
_PIECE_BYTES: Final = 256 * 1024


class Sender(Protocol):
    """Sends buffers in order. It keeps them until they are sent, and no copy of them."""

    @property
    def queued_bytes(self) -> int:
        """Bytes ever given to `send`."""
        ...

    @property
    def sent_bytes(self) -> int:
        """Bytes of those that are sent; the memory of the rest is still read."""
        ...

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send as much as goes at once, and the rest as the server takes it."""
        ...

    def pause(self) -> None:
        """Send nothing until `resume`."""
        ...

    def resume(self) -> None:
        """Go on sending."""
        ...

    def close(self) -> None:
        """Forget what is not sent."""
        ...


class _Waiting:
    """Buffers that wait for their turn, and how many bytes came and went."""

    def __init__(self) -> None:
        self.queued_bytes = 0
        self.sent_bytes = 0
        self._buffers: deque[memoryview] = deque()

    def add(self, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            view = memoryview(buffer)
            self.queued_bytes += len(view)
            self._buffers.append(view)

    def first(self, count: int) -> list[memoryview]:
        return list(islice(self._buffers, count))

    def drop(self, count: int) -> None:
        """The first `count` bytes are sent."""
        self.sent_bytes += count
        while count:
            first = self._buffers.popleft()
            if count < len(first):
                self._buffers.appendleft(first[count:])
                return
            count -= len(first)

    def clear(self) -> None:
        self._buffers.clear()

    def __bool__(self) -> bool:
        return bool(self._buffers)


class SocketSender:
    """
    Sends by a plain socket with vectored writes.

    A transport of asyncio copies what the kernel does not take at once, which is nearly all of a
    large block. So this writes to the socket itself.

    Args:
        connected: A socket that does not block, with a descriptor that no transport has.
        lost: Called when it can't be written to any more.
    """

    def __init__(self, connected: socket.socket, lost: Callable[[OSError], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = connected
        self._lost = lost
        self._waiting = _Waiting()
        self._is_blocked = False

    @property
    def queued_bytes(self) -> int:
        """Bytes ever given to `send`."""
        return self._waiting.queued_bytes

    @property
    def sent_bytes(self) -> int:
        """Bytes that the kernel has."""
        return self._waiting.sent_bytes

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send as much as goes at once, and the rest as the server takes it."""
        self._waiting.add(buffers)
        if not self._is_blocked:
            self._flush()

    def pause(self) -> None:
        """Nothing: only a transport's own buffer can be too full."""

    def resume(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Forget what is not sent. The socket is still its owner's to close."""
        self._waiting.clear()
        if self._is_blocked:
            self._is_blocked = False
            self._loop.remove_writer(self._socket.fileno())

    def _flush(self) -> None:
        try:
            while self._waiting:
                buffers = self._waiting.first(_VECTOR_MAX)
                sent = self._socket.sendmsg(buffers)
                self._waiting.drop(sent)
                if sent < sum(map(len, buffers)):
                    break
        except BlockingIOError:
            pass
        except OSError as error:
            self._lost(error)
            return
        self._watch(is_blocked=bool(self._waiting))

    def _watch(self, *, is_blocked: bool) -> None:
        """Be called when the kernel has room again, as long as something waits."""
        if is_blocked and not self._is_blocked:
            self._loop.add_writer(self._socket.fileno(), self._flush)
        elif self._is_blocked and not is_blocked:
            self._loop.remove_writer(self._socket.fileno())
        self._is_blocked = is_blocked


class TransportSender:
    """Sends by a transport, as TLS must: in pieces, so that it copies one piece at a time."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._waiting = _Waiting()
        self._is_paused = False

    @property
    def queued_bytes(self) -> int:
        """Bytes ever given to `send`."""
        return self._waiting.queued_bytes

    @property
    def sent_bytes(self) -> int:
        """Bytes that the transport has."""
        return self._waiting.sent_bytes

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send as much as the transport takes, and the rest when it says so."""
        self._waiting.add(buffers)
        self._flush()

    def pause(self) -> None:
        """Wait until the server has taken what was written."""
        self._is_paused = True

    def resume(self) -> None:
        """Go on writing."""
        self._is_paused = False
        self._flush()

    def close(self) -> None:
        """Forget what is not sent."""
        self._waiting.clear()

    def _flush(self) -> None:
        while self._waiting and not self._is_paused:
            (first,) = self._waiting.first(1)
            piece = first[:_PIECE_BYTES]
            self._waiting.drop(len(piece))
            self._transport.write(piece)
