"""One node's conversation with one router: who it is, what it holds, and what changes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeAlias

from grpc import aio

from cachenode.events import RouterJoined, RouterLost
from cachenode.node import CacheNode
from hearthkv.codec.membership import decode_router_message, encode_node_message
from hearthkv.core.clock import Clock
from hearthkv.core.errors import BadInputError
from hearthkv.core.routing import (
    DrainOrder,
    NodeEndpoint,
    NodeHello,
    NodeLoad,
    NodeMessage,
    PrefetchOrder,
    PullOrder,
    ResyncOrder,
    RouterMessage,
    Welcome,
)
from hearthkv.telemetry import Telemetry
from hearthkv.v1 import membership_pb2_grpc

HEARTBEAT_EVERY_S: Final = 1.0
EVENTS_EVERY_S: Final = 0.05
"""How long a change waits for company before it is reported."""

SEND_TIMEOUT_S: Final = 10.0
RETRY_S_MIN: Final = 0.2
RETRY_S_MAX: Final = 5.0
RETRY_AWAY_S_MAX: Final = 1.0
"""Longest pause before a router that did not answer is tried again: a node that was cut off is to
be back as soon as the network is."""

STEADY_S: Final = 10.0
"""Seconds after which a stream counts as good. Two nodes of one name throw each other out at
every hello: they are to do so slowly, for each hello comes with a whole inventory."""

_CHANNEL_OPTIONS: Final = (
    # A router that vanished without a word is noticed after four seconds.
    ("grpc.keepalive_time_ms", 2_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # A connection is tried for so long, not for the usual 20 s, and each time anew.
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)

_Send: TypeAlias = Callable[[NodeMessage], Awaitable[None]]


class Reporter:
    """
    Keeps one router informed, for as long as the node runs. Its trouble disturbs no one else.

    Args:
        node: What is reported.
        endpoint: Where clients reach the node.
        router: The router's address, host:port.
        clock: For the pace of heartbeats.
        jitter: Gives numbers in [0, 1), so that nodes don't all come back at once.
    """

    def __init__(
        self,
        node: CacheNode,
        endpoint: NodeEndpoint,
        router: str,
        *,
        clock: Clock,
        jitter: Callable[[], float],
        telemetry: Telemetry,
    ) -> None:
        self._node = node
        self._endpoint = endpoint
        self._router = router
        self._clock = clock
        self._jitter = jitter
        self._telemetry = telemetry
        self._changes = node.catalog.events.subscribe()
        self._moved = node.drain.moved.listen()
        self._is_resync_due = True
        self._failures = 0
        self._welcomed_s: float | None = None  # on the stream that is open
        self._reason_told = ""  # once, however long a router is away

    async def run(self) -> None:
        """Report until cancelled; a stream that breaks is opened anew, after a pause that grows."""
        try:
            while True:
                reason = await self._converse()
                self._note_end(reason)
                await asyncio.sleep(self._pause_s())
        finally:
            self._changes.close()
            self._node.drain.moved.dismiss(self._moved)

    def _note_end(self, reason: str) -> None:
        if self._welcomed_s is not None and self._clock.now() - self._welcomed_s >= STEADY_S:
            self._failures = 0
        if reason != self._reason_told:
            self._reason_told = reason
            self._telemetry.emit(RouterLost(self._router, reason))

    def _pause_s(self) -> float:
        longest_s = RETRY_AWAY_S_MAX if self._welcomed_s is None else RETRY_S_MAX
        pause_s = min(longest_s, RETRY_S_MIN * (1 << min(self._failures, 16)))
        self._failures += 1
        return pause_s * (0.5 + 0.5 * self._jitter())

    async def _converse(self) -> str:
        """Hold one stream until it breaks; return why it did."""
        self._is_resync_due = True
        self._welcomed_s = None
        self._moved.open()
        async with aio.insecure_channel(self._router, options=_CHANNEL_OPTIONS) as channel:
            call = membership_pb2_grpc.MembershipStub(channel).Join()

            async def send(said: NodeMessage) -> None:
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await call.write(encode_node_message(said))

            answers = (decode_router_message(message) async for message in call)
            ends = {
                asyncio.create_task(self._speak(send)),
                asyncio.create_task(self._listen(answers)),
            }
            try:
                done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._moved.close()
                call.cancel()
                for end in ends:
                    end.cancel()
                await asyncio.wait(ends)
        return "; ".join(sorted(end.result() for end in done))

    async def _speak(self, send: _Send) -> str:
        """Tell the router everything, until that fails; return why it did."""
        try:
            await send(NodeHello(self._endpoint, self._node.identity.version))
            if self._node.drain.is_draining:  # an inventory may take a while
                await send(self._load())
            beat_due_s, is_draining = self._clock.now(), False
            while True:
                await self._report_changes(send)
                for number, moved in self._moved.next():
                    await send(moved)
                    self._moved.told(number)
                # A node that is about to leave says so at once: it is to get no new session.
                is_news = is_draining != self._node.drain.is_draining
                if is_news or self._clock.now() >= beat_due_s:
                    beat_due_s = self._clock.now() + HEARTBEAT_EVERY_S
                    load = self._load()
                    is_draining = load.is_draining
                    await send(load)
                await asyncio.sleep(EVENTS_EVERY_S)
        except (aio.AioRpcError, aio.UsageError, asyncio.InvalidStateError) as error:
            return _reason(error)
        except TimeoutError:
            return f"took no message for {SEND_TIMEOUT_S:g} s"

    async def _report_changes(self, send: _Send) -> None:
        if self._is_resync_due or self._changes.is_overrun:
            self._is_resync_due = False
            # In one tick, so that the numbered changes begin where the inventory ends.
            self._changes.restart()
            inventory = self._node.catalog.snapshot()
            for part in inventory:
                await send(part)
        while (batch := self._changes.take()) is not None:
            await send(batch)

    def _load(self) -> NodeLoad:
        return NodeLoad(
            sequence=self._changes.sequence,
            tiers=self._node.usage(),
            calls_in_flight=self._node.calls_in_flight,
            uncached_tokens=self._node.uncached_tokens,
            is_draining=self._node.drain.is_draining,
        )

    async def _listen(self, answers: AsyncIterator[RouterMessage]) -> str:
        """Follow the router's orders until the stream ends; return why it did."""
        try:
            async for said in answers:
                self._follow(said)
        except (aio.AioRpcError, aio.UsageError, BadInputError) as error:
            return _reason(error)
        return "ended the stream"

    def _follow(self, said: RouterMessage) -> None:
        if isinstance(said, Welcome):
            self._welcomed_s = self._clock.now()
            self._reason_told = ""
            self._telemetry.emit(RouterJoined(self._router, said.lease_s))
        elif isinstance(said, ResyncOrder):
            self._is_resync_due = True
        elif isinstance(said, PrefetchOrder):
            self._node.prefetch_to(said.namespace_id, said.tip_key)
        elif isinstance(said, PullOrder):
            self._node.pulls.order(said)
        elif isinstance(said, DrainOrder):
            self._node.drain.follow(said)


def _reason(error: Exception) -> str:
    if isinstance(error, aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__
