"""The connections of an event loop to one Redis server, and what is under way on them."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from hearthkv.core.errors import RespError, StoreUnavailableError
from hearthkv.datapath.redis_place import RedisPlace
from hearthkv.datapath.resp_connection import Finished, RespConnection
from hearthkv.datapath.resp_wire import Request
from hearthkv.datapath.window import Window

CONNECTIONS_MAX: Final = 2

_ATTEMPTS_MAX: Final = 3

Settled = Callable[[int, Request], None]
"""Called with the index and the request as soon as its reply is there, while its bytes are still
in the processor's cache; in the midst of the loop's reading, so it must not raise."""


class RespPool:
    """
    Carries batches of requests, all within one window; calls at the same time take turns.

    Connections are opened when they are needed. What is under way on one that is lost fails,
    and what still waits goes by another.
    """

    def __init__(self, place: RedisPlace, *, connections_max: int = CONNECTIONS_MAX) -> None:
        self._place = place
        self._connections_max = connections_max
        self._connections: list[RespConnection] = []
        self._opening = 0
        self._is_closed = False
        self._window = Window()
        self._batches: deque[_Batch] = deque()  # those with requests that wait

    async def run(self, requests: Sequence[Request], settled: Settled) -> None:
        """
        Carry out requests, and call `settled` for each.

        A call that is cancelled or raises settles no more of its requests, and neither reads nor
        writes their memory any more.

        Raises:
            OSError: If nobody listens there.
            RespError: If the server does not let us in.
            StoreUnavailableError: If it hangs up, again and again, before anything is sent.
        """
        batch = _Batch(requests, settled)
        if batch.waiting:
            self._batches.append(batch)
        try:
            for _ in range(_ATTEMPTS_MAX):
                if not batch.left:
                    return
                await self._open_missing()
                await batch.is_woken.wait()
                batch.is_woken.clear()
            if batch.left:
                raise StoreUnavailableError("the connection is lost")
        finally:
            self._withdraw(batch)

    def close(self) -> None:
        """Close all connections, which fails what is under way, and open no more."""
        self._is_closed = True
        for connection in self._connections:
            connection.close()

    async def _open_missing(self) -> None:
        """Have connections, one of them at least or on its way; start what waits for them."""
        self._connections = [known for known in self._connections if known.is_usable]
        self._pump()
        while len(self._connections) + self._opening < self._connections_max:
            self._opening += 1
            try:
                connection = await self._open()
                self._connections.append(connection)  # to the list of now, not of before
            except (OSError, RespError, StoreUnavailableError):
                if self._least_busy() is None:
                    raise
                return
            finally:
                self._opening -= 1
                self._pump()

    async def _open(self) -> RespConnection:
        connection = await RespConnection.open(self._place)
        if self._is_closed:  # perhaps only meanwhile
            connection.close()
            raise StoreUnavailableError("the pool of connections is closed")
        return connection

    def _pump(self) -> None:
        """Start what the window has room for."""
        while self._batches:
            connection = self._least_busy()
            if connection is None:
                if not self._opening:
                    self._wake_all()
                return
            started = self._take(connection)
            if not started:
                return
            connection.start(started)

    def _take(self, connection: RespConnection) -> list[tuple[Request, Finished]]:
        """Take what the window has room for, one of each batch in turn, for one connection."""
        started: list[tuple[Request, Finished]] = []
        while self._batches:
            batch = self._batches[0]
            index, request = batch.waiting[0]
            if not self._window.has_room(request.size_bytes):
                break
            self._batches.rotate(-1)
            batch.waiting.popleft()
            if not batch.waiting:
                self._batches.remove(batch)
            batch.under_way[request] = connection
            self._window.enter(request.size_bytes)
            started.append((request, partial(self._finish, batch, index)))
        return started

    def _finish(self, batch: "_Batch", index: int, request: Request) -> None:
        self._window.leave(request.size_bytes)
        if self._window.is_low:
            # First the next ones: the server works on them while this one is looked at.
            self._pump()
        batch.settle(index, request)

    def _withdraw(self, batch: "_Batch") -> None:
        if batch.waiting:
            self._batches.remove(batch)
            batch.waiting.clear()
        under_way, batch.under_way = batch.under_way, {}
        for request, connection in under_way.items():
            connection.withdraw(request)

    def _wake_all(self) -> None:
        """There is no connection: let one of the callers open it."""
        for batch in self._batches:
            batch.is_woken.set()

    def _least_busy(self) -> RespConnection | None:
        usable = [known for known in self._connections if known.is_usable]
        return min(usable, key=lambda known: known.size_bytes, default=None)


class _Batch:
    """The requests of one call."""

    def __init__(self, requests: Sequence[Request], settled: Settled) -> None:
        self.waiting = deque(enumerate(requests))
        self.under_way: dict[Request, RespConnection] = {}
        self.left = len(requests)
        self.is_woken = asyncio.Event()
        """That nothing is left, or that there is no connection."""

        self._settled = settled

    def settle(self, index: int, request: Request) -> None:
        """A reply is there; that of a request which was withdrawn is of no use."""
        if self.under_way.pop(request, None) is None:
            return
        self.left -= 1
        if not self.left:
            self.is_woken.set()
        self._settled(index, request)
