"""
The network: what is sent arrives later, in order within a stream, or never.

A link joins two machines. It may be slow, it may hold back all that is on its way, and it may be
cut: then both ends of every stream learn that it is over, each at its own moment, and a new
stream may well overtake what an old one still carries.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item")

DELAY_S = (0.0002, 0.003)
"""Least and most that a message takes on a link that is well."""

WINDOW = 16
"""Messages of one direction of a stream that are not consumed yet; the next one waits."""


class Severable(Protocol):
    """A stream that a link carries."""

    def sever_near(self) -> None:
        """Let the caller's end know that the stream is broken."""

    def sever_far(self) -> None:
        """Let the server's end know that the stream is broken."""


class Link:
    """What lies between two machines."""

    def __init__(self, chance: random.Random) -> None:
        self.slowness = 1.0
        self.is_blocked = False
        self.faulty_until_s = 0.0
        """When it was or will be well again; asked by those who judge what should work."""

        self._chance = chance
        self._held: deque[Callable[[], None]] = deque()
        self._streams: dict[int, Severable] = {}
        self._blocks = 0

    def draw_delay_s(self) -> float:
        least, most = DELAY_S
        # Mostly quick, sometimes late: streams overtake each other.
        share = self._chance.random()
        late = 10.0 if share > 0.98 else 1.0
        return (least + (most - least) * share) * late * self.slowness

    def note_arrival(self, at_s: float) -> None:
        """Take note of when something arrives; what is slow ails the link until then."""
        if self.slowness > 1:
            self.faulty_until_s = max(self.faulty_until_s, at_s)

    def pass_on(self, deliver: Callable[[], None]) -> None:
        """Deliver something whose time has come, unless the link is blocked."""
        if self.is_blocked or self._held:
            self._held.append(deliver)
        else:
            deliver()

    def carry(self, number: int, stream: Severable) -> None:
        self._streams[number] = stream

    def drop(self, number: int) -> None:
        self._streams.pop(number, None)

    def block(self) -> int:
        """Hold back everything; return the number of this blockade."""
        self.is_blocked = True
        self._blocks += 1
        return self._blocks

    def open(self, blockade: int) -> None:
        """Let everything through again that was held back, unless there is a newer blockade."""
        if not self.is_blocked or blockade != self._blocks:
            return
        self.is_blocked = False
        while self._held and not self.is_blocked:
            self._held.popleft()()

    def cut(self, spread_s: float) -> None:
        """Break all streams; their ends learn of it within `spread_s`."""
        loop = asyncio.get_running_loop()
        for stream in list(self._streams.values()):
            loop.call_later(self._chance.random() * spread_s, stream.sever_near)
            loop.call_later(self._chance.random() * spread_s, stream.sever_far)


class Pipe(Generic[Item]):
    """
    One direction of one stream.

    Args:
        link: What it goes over.
        receive: Called with everything that arrives, in order.
    """

    def __init__(self, link: Link, receive: Callable[[Item], None]) -> None:
        self._link = link
        self._receive = receive
        self._on_the_way: deque[Item] = deque()
        self._last_at = 0.0
        self._unread = 0
        self._is_closed = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def send(self, item: Item) -> None:
        """Send something; it arrives behind everything that was sent before."""
        loop = asyncio.get_running_loop()
        self._last_at = max(self._last_at, loop.time() + self._link.draw_delay_s())
        self._link.note_arrival(self._last_at)
        self._on_the_way.append(item)
        loop.call_at(self._last_at, self._link.pass_on, self._arrive)

    async def send_when_there_is_room(self, item: Item) -> None:
        """Send something that the other side has to consume, unless the pipe is closed by then."""
        while self._unread >= WINDOW and not self._is_closed:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        if not self._is_closed:
            self._unread += 1
            self.send(item)

    def consumed(self) -> None:
        """Let room be made by one item that was read."""
        self._unread -= 1
        self._wake()

    def close(self) -> None:
        """Let nobody wait for room any more."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _arrive(self) -> None:
        self._receive(self._on_the_way.popleft())


class Network:
    """All links, by the names of their two machines."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._links: dict[tuple[str, str], Link] = {}

    def link(self, one: str, other: str) -> Link:
        """The link between two machines."""
        ends = (min(one, other), max(one, other))
        if ends not in self._links:
            self._links[ends] = Link(self._chance)
        return self._links[ends]

    def links_of(self, name: str) -> list[Link]:
        """The links of one machine that were ever used."""
        return [link for ends, link in self._links.items() if name in ends]

    def links(self) -> list[Link]:
        """All links that were ever used."""
        return list(self._links.values())
