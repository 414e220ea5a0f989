"""The same wire over a blocking socket, for threads of an engine that have no event loop."""

import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from hearthkv.core.clock import Clock
from hearthkv.core.errors import HearthKVError, StoreUnavailableError
from hearthkv.datapath.redis_place import RedisPlace
from hearthkv.datapath.resp_connection import login_words, tls_context
from hearthkv.datapath.resp_wire import Buffer, ReplyReader, Request
from hearthkv.datapath.window import Window

_VECTOR_MAX: Final = 64
_TIMEVAL: Final = struct.Struct("@ll")
_TIMEOUTS: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

Settled = Callable[[int, Request], None]
"""Called with the index and the request as soon as its reply is there; must not raise."""


class BlockingResp:
    """
    One connection to one server, for one thread at a time.

    It is opened when it is needed, and again after it was lost. After anything that goes wrong
    it is closed, so no late reply is ever taken for another, or written to memory.
    """

    def __init__(self, place: RedisPlace, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._socket: socket.socket | None = None
        self._reader = ReplyReader()
        self._limit_s = 0.0  # of one call to the kernel

    def run(self, requests: Sequence[Request], settled: Settled, *, deadline_s: float) -> None:
        """
        Carry out requests within a deadline, and call `settled` for each.

        When this raises, the requests that were not settled never are, and their memory is left
        alone.

        Raises:
            TimeoutError: If the deadline passed.
            OSError: If nobody listens there, or the connection is lost.
            RespError: If the server does not let us in.
            StoreUnavailableError: If it hangs up or does not speak RESP.
        """
        ends_at = self._clock.now() + deadline_s
        try:
            if self._socket is None:
                self._open(ends_at)
            self._run(requests, settled, ends_at)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Hang up."""
        self._reader = ReplyReader()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self, ends_at: float) -> None:
        place, timeout_s = self._place, self._left_s(ends_at)
        if place.path:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(timeout_s)
            self._socket.connect(place.path)
        else:
            self._socket = socket.create_connection((place.host, place.port), timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tls = tls_context(place)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=place.host)
        self._socket.settimeout(None)
        self._limit_s = 0.0
        for words in login_words(place):
            login = Request(words)
            self._run([login], lambda _, __: None, ends_at)
            if isinstance(login.reply, HearthKVError):
                raise login.reply

    def _run(self, requests: Sequence[Request], settled: Settled, ends_at: float) -> None:
        window = Window()
        waiting = deque(requests)
        settled_count = 0
        while settled_count < len(requests):
            while waiting and window.has_room(waiting[0].size_bytes):
                request = waiting.popleft()
                window.enter(request.size_bytes)
                self._reader.expect(request)
                self._send(request.command, ends_at)
            for request in self._receive(ends_at):
                window.leave(request.size_bytes)
                settled(settled_count, request)
                settled_count += 1
            if self._reader.trouble is not None:
                raise self._reader.trouble

    def _send(self, buffers: Sequence[Buffer], ends_at: float) -> None:
        assert self._socket is not None
        views = [memoryview(buffer) for buffer in buffers]
        while views:
            self._limit(ends_at)
            try:
                # TLS has no vectored writes.
                if self._place.is_tls:
                    sent = self._socket.send(views[0])
                else:
                    sent = self._socket.sendmsg(views[:_VECTOR_MAX])
            except _TIMEOUTS as error:
                raise TimeoutError from error
            while views and sent >= len(views[0]):
                sent -= len(views.pop(0))
            if views:
                views[0] = views[0][sent:]

    def _receive(self, ends_at: float) -> list[Request]:
        assert self._socket is not None
        self._limit(ends_at)
        try:
            count = self._socket.recv_into(self._reader.buffer())
        except _TIMEOUTS as error:
            raise TimeoutError from error
        if not count:
            raise StoreUnavailableError("the connection was lost")
        return self._reader.advance(count)

    def _limit(self, ends_at: float) -> None:
        """
        Let the kernel end a call that takes too long.

        Python's own timeouts ask the kernel before each call whether it would have to wait,
        which costs as much as the call. The limit is set anew when it is off by a tenth.
        """
        assert self._socket is not None
        left_s = self._left_s(ends_at)
        if not left_s <= self._limit_s <= left_s * 1.1:
            self._limit_s = left_s
            seconds, fraction = divmod(left_s, 1)
            limit = _TIMEVAL.pack(int(seconds), max(int(fraction * 1e6), 1))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def _left_s(self, ends_at: float) -> float:
        left_s = ends_at - self._clock.now()
        if left_s <= 0:
            raise TimeoutError
        return left_s
