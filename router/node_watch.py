"""
The streams of the nodes: hands what they say to the cluster, and its answers back to them.

One `NodeWatch` a router. Its methods are short and do not wait, so nothing is locked: what they
do between two awaits is one step. Every stream has a bounded queue of answers; a node that does
not read them loses its stream, and is suspect until it comes back. Watchers of the list of nodes
need no queue: each is told the latest list, whatever it missed.
"""

import asyncio
from collections.abc import AsyncIterator

from hearthkv.core.clock import Clock
from hearthkv.core.routing import (
    NodeEndpoint,
    NodeMessage,
    PrefetchOrder,
    PullOrder,
    RouterMessage,
)
from hearthkv.core.session_id import NodeId
from hearthkv.telemetry import Event, Telemetry
from router import events
from router.cluster import Cluster
from router.outcome import (
    Change,
    DrainBegun,
    DrainEnded,
    FeedAlarmed,
    FeedHealed,
    Joined,
    Outcome,
    Recovered,
    Removed,
    Resynced,
    StreamId,
    Suspected,
)

ANSWERS_MAX = 256
"""Answers that wait for a node. It acknowledges at the pace at which it is acknowledged to."""

ADVICE_WAITING_MAX = 64
"""Answers that may wait before orders to prefetch or to pull are dropped: they are advice."""

SWEEP_PERIOD_S = 0.25
SWEEP_LATE_S = 1.0
"""Time between two sweeps after which the router itself was not there."""


class NodeStream:
    """One node's stream, as its call sees it."""

    def __init__(self, stream_id: StreamId, opened_s: float) -> None:
        self.stream_id = stream_id
        self.opened_s = opened_s
        self._answers: asyncio.Queue[RouterMessage] = asyncio.Queue(ANSWERS_MAX)
        self._closed = asyncio.Event()
        self.end_reason = ""
        """Why the router ended the stream; empty while it has not, or where it stops."""

    @property
    def waiting_answers(self) -> int:
        """Answers that the node has not read yet."""
        return self._answers.qsize()

    @property
    def is_closed(self) -> bool:
        """Whether the router has ended the stream."""
        return self._closed.is_set()

    def offer(self, answer: RouterMessage) -> bool:
        """Queue an answer; return whether there was room."""
        try:
            self._answers.put_nowait(answer)
        except asyncio.QueueFull:
            return False
        return True

    def close(self, reason: str = "") -> None:
        """End the stream, with a reason if that is trouble; what was not read is dropped."""
        self.end_reason = self.end_reason or reason
        self._closed.set()

    async def next_answer(self) -> RouterMessage:
        """Wait for the next answer."""
        return await self._answers.get()

    async def closed(self) -> None:
        """Wait until the router ends the stream."""
        await self._closed.wait()


class NodeWatch:
    """
    The streams of all nodes, and those who watch the list of nodes.

    Args:
        cluster: What is told what the nodes say.
        clock: The hour.
        telemetry: Where events go.
        stream_silence_s: Time within which a stream must have begun with a hello.
    """

    def __init__(
        self, cluster: Cluster, clock: Clock, telemetry: Telemetry, *, stream_silence_s: float
    ) -> None:
        self._cluster = cluster
        self._stream_silence_s = stream_silence_s
        self._clock = clock
        self._telemetry = telemetry
        self._streams: dict[StreamId, NodeStream] = {}
        self._next_id = 0
        self._changed = asyncio.Event()
        self._told_version = cluster.membership.version
        self._is_closing = False
        self.measure()

    def open(self) -> NodeStream:
        """Return a stream for a call that just began."""
        self._next_id += 1
        stream = NodeStream(StreamId(self._next_id), self._clock.now())
        self._streams[stream.stream_id] = stream
        if self._is_closing:
            stream.close()
        return stream

    def hear(self, stream: NodeStream, message: NodeMessage) -> None:
        """
        Take in what a node said.

        Raises:
            BadRequestError: If a stream does not begin with a hello, or says it twice.
            LimitError: If the node is one too many.
        """
        self._follow(self._cluster.hear(stream.stream_id, message, self._clock.now()))

    def lose(self, stream: NodeStream) -> None:
        """Note that a call is over."""
        stream.close()
        del self._streams[stream.stream_id]
        self._follow(self._cluster.lose(stream.stream_id, self._clock.now()))

    def order_prefetch(self, node_id: NodeId, order: PrefetchOrder) -> None:
        """Ask a node to lift the blocks of a turn, unless it has many answers to read."""
        self._telemetry.emit(events.PrefetchOrdered(node_id, self._advise(node_id, order)))

    def order_pull(self, node_id: NodeId, order: PullOrder, cause: events.PullCause) -> None:
        """Ask a node to fetch a prefix from another one, unless it has many answers to read."""
        is_sent = self._advise(node_id, order)
        self._telemetry.emit(
            events.PullOrdered(node_id, order.source_address, order.blocks, cause, is_sent)
        )

    def order_drain(self, node_id: NodeId, *, is_cancelled: bool) -> None:
        """
        Have a node leave, or stay after all.

        Raises:
            UnknownNodeError: If there is no such node.
        """
        self._follow(
            self._cluster.order_drain(node_id, self._clock.now(), is_cancelled=is_cancelled)
        )

    def sweep(self) -> None:
        """Do what falls due with time: leases, memory, the gauges."""
        now = self._clock.now()
        for stream in self._streams.values():
            is_mute = not self._cluster.membership.has_heard(stream.stream_id)
            if is_mute and now - stream.opened_s > self._stream_silence_s:
                stream.close(f"no hello came within {self._stream_silence_s:g} s")
        self._follow(self._cluster.sweep(now))
        for node_id, order in self._cluster.hot_orders(now):
            self.order_pull(node_id, order, events.PullCause.HOT)
        self.measure()

    async def sweep_forever(self) -> None:
        """
        Sweep several times a second, until cancelled.

        A router that was stopped for a while has not read yet what the nodes said meanwhile: it
        reads first, and judges their silence then.
        """
        while True:
            slept_s = self._clock.now()
            await asyncio.sleep(SWEEP_PERIOD_S)
            if self._clock.now() - slept_s > SWEEP_LATE_S:
                await asyncio.sleep(SWEEP_PERIOD_S)
            self.sweep()

    async def node_lists(self) -> AsyncIterator[tuple[int, list[NodeEndpoint]]]:
        """Give version and nodes at once, and again after every change, until `close`."""
        while not self._is_closing:
            changed = self._changed
            yield self._cluster.membership.version, self._cluster.endpoints()
            await changed.wait()

    def close(self) -> None:
        """End all streams and all watching."""
        self._is_closing = True
        for stream in self._streams.values():
            stream.close()
        self._tell_watchers()

    def measure(self) -> None:
        """Set the gauges to what the cluster is now."""
        cluster = self._cluster
        self._telemetry.emit(
            events.ClusterMeasured(
                nodes=cluster.count_nodes(),
                index_keys=cluster.index.keys,
                sessions=len(cluster.sessions),
                hot_prefixes=cluster.hot.hot_count,
                feed_alarms=cluster.feeds.counts(),
                index_lag_s=cluster.feeds.lag_s(self._clock.now()),
            )
        )

    def _follow(self, outcome: Outcome) -> None:
        """Perform what an outcome asks for."""
        for stream_id, answer in outcome.answers:
            stream = self._streams[stream_id]
            if not stream.is_closed and not stream.offer(answer):
                self._telemetry.emit(events.StreamOverflowed(stream.waiting_answers))
                stream.close(f"{stream.waiting_answers} answers were not read")
        for ended in outcome.closed:
            self._streams[ended.stream].close(ended.reason)
        reports = [report for change in outcome.changes if (report := _report_of(change))]
        for report in reports:
            self._telemetry.emit(report)
        if self._cluster.membership.version != self._told_version:
            self._tell_watchers()
            self.measure()

    def _advise(self, node_id: NodeId, order: PrefetchOrder | PullOrder) -> bool:
        """Send an order that may be dropped; return whether it was sent."""
        stream_id = self._cluster.membership.stream(node_id)
        stream = None if stream_id is None else self._streams[stream_id]
        return (
            stream is not None
            and stream.waiting_answers < ADVICE_WAITING_MAX
            and stream.offer(order)
        )

    def _tell_watchers(self) -> None:
        self._told_version = self._cluster.membership.version
        self._changed.set()
        self._changed = asyncio.Event()


def _report_of(change: Change) -> Event | None:
    """The event that tells of a change; None where the change is not worth a line."""
    report: Event | None = None
    match change:
        case Joined(endpoint, is_new):
            report = events.NodeJoined(
                endpoint.node_id, endpoint.address, endpoint.epoch, is_new=is_new
            )
        case Suspected(node_id, silence_s):
            report = events.NodeSuspected(node_id, silence_s)
        case Recovered(node_id):
            report = events.NodeRecovered(node_id)
        case DrainBegun(node_id):
            report = events.DrainBegun(node_id)
        case DrainEnded(node_id):
            report = events.DrainEnded(node_id)
        case Removed(node_id, silence_s):
            report = events.NodeRemoved(node_id, silence_s)
        case FeedAlarmed(node_id, trouble, feed):
            report = events.FeedAlarmed(
                node_id, trouble, feed.said_blocks, feed.indexed_blocks + feed.unindexed_blocks
            )
        case FeedHealed(node_id):
            report = events.FeedHealed(node_id)
        case Resynced(node_id, expected, received):
            report = events.NodeResynced(node_id, expected, received)
        case _:
            pass
    return report
