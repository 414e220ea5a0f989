"""
Calls over the simulated network: the two ends of one call, and the directory of the servers.

It stands where gRPC stands in life. Above it is the real code: generated stubs and services, and
messages that travel as bytes. It keeps gRPC's promises and no others: messages of one direction
arrive in order and once, a call ends with one status, and each end learns by itself that the
connection broke.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import grpc

from tests.scenario.sim.machines import Process
from tests.scenario.sim.network import Link, Network, Pipe
from tests.scenario.sim.trace import Trace

Code = grpc.StatusCode
Trailers = tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True)
class Status:
    """How a call ended."""

    code: Code
    details: str = ""
    trailers: Trailers = ()


@dataclass(frozen=True)
class HalfClose:
    """The caller has nothing more to say."""


@dataclass(frozen=True)
class Cancel:
    """The caller has gone."""


Serve = Callable[["ServerEnd"], Awaitable[None]]
"""Carries out one call; may raise anything."""


class Inbox:
    """What has arrived at one end and was not read yet."""

    def __init__(self) -> None:
        self.is_over = False
        self._messages: deque[bytes] = deque()
        self._news = asyncio.Event()

    def put(self, message: bytes) -> None:
        self._messages.append(message)
        self._news.set()

    def end(self) -> None:
        """Nothing more will come; what is here may still be read."""
        self.is_over = True
        self._news.set()

    async def next(self) -> bytes | None:
        """The next message; None where there will be none."""
        while not self._messages:
            if self.is_over:
                return None
            self._news.clear()
            await self._news.wait()
        return self._messages.popleft()


class ServerEnd:
    """A call as its server sees it."""

    def __init__(self, call: "Call") -> None:
        self.inbox = Inbox()
        self._call = call
        self._task: asyncio.Task[None] | None = None
        self.is_over = False

    def receive(self, item: "bytes | HalfClose | Cancel") -> None:
        if self.is_over:
            return
        if isinstance(item, bytes):
            self.inbox.put(item)
        elif isinstance(item, HalfClose):
            self.inbox.end()
        else:
            self.break_off()

    def start(self, process: Process, serve: Serve) -> None:
        self._task = process.spawn(self._run(serve))

    def refuse(self, status: Status) -> None:
        """End the call, of which nothing will be carried out."""
        self._finish(status)

    def break_off(self) -> None:
        """The caller is not there any more."""
        self.is_over = True
        self.inbox.end()
        self._call.responses.close()
        self._call.look_whether_over()
        if self._task is not None:
            self._task.cancel()

    async def read(self) -> bytes | None:
        message = await self.inbox.next()
        if message is not None:
            self._call.requests.consumed()
        return message

    async def write(self, message: bytes) -> None:
        await self._call.responses.send_when_there_is_room(message)

    async def _run(self, serve: Serve) -> None:
        try:
            await serve(self)
        except _Aborted as aborted:
            self._finish(aborted.status)
        else:
            self._finish(Status(Code.OK))

    def _finish(self, status: Status) -> None:
        if not self.is_over:
            self.is_over = True
            self._call.responses.send(status)
            self._call.look_whether_over()


class _Aborted(Exception):  # noqa: N818  # not an error: a way out
    """A service ended its call."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


def abort(status: Status) -> None:
    """End the call that is being served."""
    raise _Aborted(status)


class Call:
    """One call, from the side of its caller. What it is made of is bytes."""

    def __init__(self, fabric: "Fabric", caller: Process, address: str, method: str) -> None:
        self.status: Status | None = None
        self.was_cancelled = False
        """Whether the caller itself ended it, which its status does not tell apart."""

        self.inbox = Inbox()
        self.method = method
        self.caller = caller
        self.server: Process | None = None
        self._fabric = fabric
        self._address = address
        self._expiry: asyncio.TimerHandle | None = None
        self._link = fabric.link(caller, address)
        self._far = ServerEnd(self)
        self.requests: Pipe[bytes | HalfClose | Cancel] = Pipe(self._link, self._at_server)
        self.responses: Pipe[bytes | Status] = Pipe(self._link, self._at_client)
        self.number = fabric.enter(self)
        self._link.carry(self.number, self)

    def __str__(self) -> str:
        name = self.method.rpartition("/")[2]
        return f"{name} {self.caller}>{self._address} ({self.number})"

    def expire_in(self, seconds: float) -> None:
        """End the call when its time is over."""
        loop = asyncio.get_running_loop()
        late = Status(Code.DEADLINE_EXCEEDED, f"not done in {seconds:g} s")
        self._expiry = loop.call_later(max(0.0, seconds), self._give_up, late)

    def cancel(self) -> bool:
        """Leave the call; return whether it was under way."""
        if self.status is not None:
            return False
        self.was_cancelled = True
        self._give_up(Status(Code.CANCELLED, "the caller left"))
        return True

    async def write(self, message: bytes) -> bool:
        """Send a message; return whether the call was still under way."""
        await self.requests.send_when_there_is_room(message)
        return self.status is None

    def half_close(self) -> None:
        if self.status is None:
            self.requests.send(HalfClose())

    async def read(self) -> bytes | None:
        """The next message; None where the call is over."""
        message = await self.inbox.next()
        if message is not None:
            self.responses.consumed()
        return message

    def sever_near(self) -> None:
        self._end(Status(Code.UNAVAILABLE, "the connection broke"))

    def sever_far(self) -> None:
        self._far.break_off()

    def caller_died(self) -> None:
        """The operating system says so for the process, as it does."""
        if self.status is None:
            self._give_up(Status(Code.CANCELLED, "the caller died"))

    def server_died(self) -> None:
        self.server = None
        self._far.break_off()
        self.responses.send(Status(Code.UNAVAILABLE, "the connection was reset"))

    def look_whether_over(self) -> None:
        """Forget the call once both ends are done with it."""
        if self.status is not None and self._far.is_over:
            self._fabric.leave(self)
            self._link.drop(self.number)

    def _give_up(self, status: Status) -> None:
        self._end(status)
        self.requests.send(Cancel())

    def _at_server(self, item: bytes | HalfClose | Cancel) -> None:
        if self.server is None and not self._far.is_over and not isinstance(item, Cancel):
            self._open()
        self._far.receive(item)

    def _open(self) -> None:
        """The first words have arrived: see whether anybody is there."""
        served = self._fabric.server_at(self._address, self.method)
        if served is None:
            self._far.refuse(Status(Code.UNAVAILABLE, "connection refused"))
            return
        self.server, serve = served
        self._fabric.trace.note(f"serve {self}")
        self._far.start(self.server, serve)

    def _at_client(self, item: bytes | Status) -> None:
        if self.status is not None:
            return
        if isinstance(item, Status):
            self._end(item)
        else:
            self.inbox.put(item)

    def _end(self, status: Status) -> None:
        if self.status is not None:
            return
        self.status = status
        if self._expiry is not None:
            self._expiry.cancel()
        self.inbox.end()
        self.requests.close()
        self._fabric.trace.note(f"{status.code.name} {self}")
        self.look_whether_over()


class Fabric:
    """Who serves where, and all calls that are under way."""

    def __init__(self, network: Network, trace: Trace) -> None:
        self.trace = trace
        self._network = network
        self._servers: dict[str, tuple[Process, dict[str, Serve]]] = {}
        self._calls: dict[int, Call] = {}
        self._next_number = 1

    def link(self, caller: Process, address: str) -> Link:
        """The link from a process to a server."""
        return self._network.link(caller.machine.host, address.partition(":")[0])

    def listen(self, address: str, process: Process, methods: dict[str, Serve]) -> None:
        """Serve until the process dies."""
        self._servers[address] = (process, methods)
        process.on_kill.append(lambda: self._hang_up(address, process))

    def close(self, process: Process) -> None:
        """End all calls of a process that has died, or was never more than a caller."""
        for call in list(self._calls.values()):
            if call.caller is process:
                call.caller_died()
            if call.server is process:
                call.server_died()

    def server_at(self, address: str, method: str) -> tuple[Process, Serve] | None:
        served = self._servers.get(address)
        return None if served is None else (served[0], served[1][method])

    def enter(self, call: Call) -> int:
        number, self._next_number = self._next_number, self._next_number + 1
        self._calls[number] = call
        return number

    def leave(self, call: Call) -> None:
        self._calls.pop(call.number, None)

    def _hang_up(self, address: str, process: Process) -> None:
        if self._servers.get(address, (None,))[0] is process:
            del self._servers[address]
