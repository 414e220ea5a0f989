"""
Which nodes there are, and what each is expected to say next. Pure: the hour is passed in.

A node lives through these states, by what its stream does::

    (unknown) --hello--> LIVE --stream breaks--> SUSPECT --lease over--> (unknown)
                          ^                          |
                          +----------hello-----------+

and its inventory through these, by what it says::

    AWAITED --first part--> ARRIVING --last part--> FOLLOWED --number missing--> AWAITED

A live node that is told to leave, or says in a heartbeat that it is about to, is DRAINING
until one of them says otherwise. The order counts at once, and what the node says counts
from the heartbeat on that agrees with the order: then it has heard it.

A node has one stream. A new hello under its name takes over at once, be it the same start of
the node or another: the old stream is closed, and what is still heard from it is nothing.
Whatever is out of order in a followed inventory ends in a resync, so the view heals by itself
(I6); while a snapshot is awaited, events are passed over, because the snapshot contains them.

Every call returns an `Outcome`: what to answer, which streams to close, and what changed.
"""

import enum
from dataclasses import dataclass, field, replace
from typing import NewType

from hearthkv.core.errors import BadRequestError, LimitError, UnknownNodeError
from hearthkv.core.routing import (
    BlockEvent,
    DrainOrder,
    EventBatch,
    EventsAck,
    NodeEndpoint,
    NodeHello,
    NodeLoad,
    NodeMessage,
    NodeState,
    ResyncOrder,
    RouterMessage,
    SessionMoved,
    SnapshotPart,
    Welcome,
)
from hearthkv.core.session_id import NodeId, SessionId

StreamId = NewType("StreamId", int)


@dataclass(frozen=True, slots=True)
class Joined:
    """A node said hello; `is_new` unless it was known under this epoch."""

    endpoint: NodeEndpoint
    is_new: bool


@dataclass(frozen=True, slots=True)
class Suspected:
    """A node's stream broke."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class DrainBegun:
    """A node gets no new session from now on."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class DrainEnded:
    """A node that was about to leave stays."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class Removed:
    """A node's lease is over."""

    node_id: NodeId
    silence_s: float


@dataclass(frozen=True, slots=True)
class Resynced:
    """A node was asked for its inventory."""

    node_id: NodeId
    expected_sequence: int
    received_sequence: int


@dataclass(frozen=True, slots=True)
class InventoryCleared:
    """What was known of a node's blocks is void."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class BlocksChanged:
    """A node reported blocks."""

    node_id: NodeId
    event: BlockEvent


@dataclass(frozen=True, slots=True)
class SessionLeft:
    """A node that is about to leave has handed a session over."""

    node_id: NodeId
    session_id: SessionId
    to_node_id: NodeId


Change = (
    Joined
    | Suspected
    | DrainBegun
    | DrainEnded
    | Removed
    | Resynced
    | InventoryCleared
    | BlocksChanged
    | SessionLeft
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What follows from something that happened."""

    answers: tuple[tuple[StreamId, RouterMessage], ...] = ()
    changes: tuple[Change, ...] = ()
    """In the order in which they happened."""

    closed: tuple[StreamId, ...] = ()
    """Streams that have nothing to say any more."""

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(
            self.answers + other.answers, self.changes + other.changes, self.closed + other.closed
        )


class _Inventory(enum.Enum):
    """What a node is expected to say about its blocks."""

    AWAITED = enum.auto()
    ARRIVING = enum.auto()
    FOLLOWED = enum.auto()


@dataclass(slots=True)
class _Node:
    """One node."""

    endpoint: NodeEndpoint
    stream: StreamId | None
    """None while it is suspect."""

    heard_s: float
    load: NodeLoad = field(default_factory=NodeLoad)
    inventory: _Inventory = _Inventory.AWAITED
    next_sequence: int = 1
    drain_order: DrainOrder | None = None
    """None once the node has said that it follows it."""

    @property
    def is_draining(self) -> bool:
        """Whether it gets no new session, as the last order has it, or else the node itself."""
        if self.drain_order is not None:
            return not self.drain_order.is_cancelled
        return self.load.is_draining


class Membership:
    """The nodes. See the module."""

    def __init__(self, *, lease_s: float, nodes_max: int) -> None:
        self.version = 1
        """Grows with every change of `endpoints`."""
        self._lease_s = lease_s
        self._nodes_max = nodes_max
        self._nodes: dict[NodeId, _Node] = {}
        self._speakers: dict[StreamId, NodeId] = {}
        self._listed: tuple[int, list[NodeEndpoint]] = (self.version, [])

    def endpoints(self) -> list[NodeEndpoint]:
        """Return all nodes, by name. The list is shared: it is not to be changed."""
        listed_version, endpoints = self._listed
        if listed_version != self.version:
            endpoints = [self._nodes[node_id].endpoint for node_id in sorted(self._nodes)]
            self._listed = (self.version, endpoints)
        return endpoints

    def live(self) -> list[NodeEndpoint]:
        """Return the nodes that may get new sessions, by name."""
        return [node for node in self.endpoints() if node.state is NodeState.LIVE]

    def serving(self) -> list[NodeEndpoint]:
        """Return the nodes that serve the sessions that they have: live or draining; by name."""
        return [node for node in self.endpoints() if node.state is not NodeState.SUSPECT]

    def endpoint(self, node_id: NodeId) -> NodeEndpoint:
        """Return one node, which must be known."""
        return self._nodes[node_id].endpoint

    def load(self, node_id: NodeId) -> NodeLoad:
        """Return what a node, which must be known, said of itself last."""
        return self._nodes[node_id].load

    def silence_s(self, node_id: NodeId, now: float) -> float:
        """Return the time since the last message of a node, which must be known."""
        return now - self._nodes[node_id].heard_s

    def stream(self, node_id: NodeId) -> StreamId | None:
        """Return the stream of a live node; None for any other."""
        node = self._nodes.get(node_id)
        return node.stream if node else None

    def has_heard(self, stream: StreamId) -> bool:
        """Return whether a stream has said hello."""
        return stream in self._speakers

    def hear(self, stream: StreamId, message: NodeMessage, now: float) -> Outcome:
        """
        Take in what a node said.

        Raises:
            BadRequestError: If a stream does not begin with a hello, or says it twice.
            LimitError: If the node is one too many.
        """
        if isinstance(message, NodeHello):
            return self._hear_hello(stream, message, now)
        node_id = self._speakers.get(stream)
        if node_id is None:
            raise BadRequestError(f"first message is {type(message).__name__}, must be NodeHello")
        node = self._nodes.get(node_id)
        if node is None or node.stream != stream:
            return Outcome(closed=(stream,))
        node.heard_s = now
        if isinstance(message, SnapshotPart):
            return self._hear_snapshot(node, message)
        if isinstance(message, EventBatch):
            return self._hear_events(node, message)
        if isinstance(message, SessionMoved):
            return Outcome(changes=(SessionLeft(node_id, message.session_id, message.node_id),))
        return self._hear_load(node, message)

    def lose(self, stream: StreamId) -> Outcome:
        """Note that a stream is over, for whatever reason; its node is suspect from now on."""
        node_id = self._speakers.pop(stream, None)
        node = self._nodes.get(node_id) if node_id is not None else None
        if node_id is None or node is None or node.stream != stream:
            return Outcome()
        node.stream = None
        node.inventory = _Inventory.AWAITED
        return Outcome(changes=self._settle(node))

    def expire(self, now: float) -> Outcome:
        """Forget the nodes whose lease is over, whether their stream is open or not."""
        outcome = Outcome()
        for node_id in sorted(self._nodes):
            silence_s = self.silence_s(node_id, now)
            if silence_s > self._lease_s:
                node = self._nodes.pop(node_id)
                closed = () if node.stream is None else (node.stream,)
                changes = (InventoryCleared(node_id), Removed(node_id, silence_s))
                outcome += Outcome(changes=changes, closed=closed)
                self.version += 1
        return outcome

    def order_resync(self, node_id: NodeId) -> Outcome:
        """Ask a node for its inventory, if that is followed now."""
        node = self._nodes.get(node_id)
        if node is None or node.inventory is not _Inventory.FOLLOWED:
            return Outcome()
        return self._resync(node, node.next_sequence)

    def order_drain(self, node_id: NodeId, *, is_cancelled: bool) -> Outcome:
        """
        Tell a node to leave, or to stay after all; a suspect one hears it when it is back.

        Raises:
            UnknownNodeError: If there is no such node.
        """
        node = self._nodes.get(node_id)
        if node is None:
            names = ", ".join(sorted(self._nodes)) or "no node"
            raise UnknownNodeError(f"node {node_id} is not known here, must be one of: {names}")
        node.drain_order = DrainOrder(is_cancelled)
        answers = () if node.stream is None else ((node.stream, node.drain_order),)
        return Outcome(answers=answers, changes=self._settle(node))

    def _settle(self, node: _Node) -> tuple[Change, ...]:
        """Bring the state of a node up to date with what is known of it; return what changed."""
        before = node.endpoint.state
        node_id = node.endpoint.node_id
        state = NodeState.DRAINING if node.is_draining else NodeState.LIVE
        if node.stream is None:
            state = NodeState.SUSPECT
        if state is before:
            return ()
        node.endpoint = replace(node.endpoint, state=state)
        self.version += 1
        if state is NodeState.SUSPECT:
            return (Suspected(node_id),)
        return (DrainBegun(node_id) if state is NodeState.DRAINING else DrainEnded(node_id),)

    def _hear_hello(self, stream: StreamId, hello: NodeHello, now: float) -> Outcome:
        node_id = hello.endpoint.node_id
        if stream in self._speakers:
            raise BadRequestError(f"hello of {node_id} is the second of its stream, must be 1")
        before = self._nodes.get(node_id)
        if before is None and len(self._nodes) >= self._nodes_max:
            raise LimitError(f"{len(self._nodes)} nodes have joined, nodes_max is reached")
        is_new = before is None or before.endpoint.epoch != hello.endpoint.epoch
        endpoint = replace(hello.endpoint, state=NodeState.LIVE)
        node = self._nodes[node_id] = _Node(endpoint, stream, now)
        answers: tuple[RouterMessage, ...] = (Welcome(self._lease_s),)
        if before is not None and not is_new:
            node.load, node.drain_order = before.load, before.drain_order
            answers += () if before.drain_order is None else (before.drain_order,)
        self._speakers[stream] = node_id
        self.version += 1
        cleared: tuple[Change, ...] = (InventoryCleared(node_id),) if is_new else ()
        return Outcome(
            answers=tuple((stream, answer) for answer in answers),
            changes=(*cleared, Joined(endpoint, is_new), *self._settle(node)),
            closed=() if before is None or before.stream is None else (before.stream,),
        )

    def _hear_snapshot(self, node: _Node, part: SnapshotPart) -> Outcome:
        changes: tuple[Change, ...] = ()
        if part.is_first:
            changes = (InventoryCleared(node.endpoint.node_id),)
            node.inventory = _Inventory.ARRIVING
        elif node.inventory is _Inventory.AWAITED:
            return Outcome()  # the rest of a snapshot that was given up
        elif node.inventory is _Inventory.FOLLOWED:
            return self._resync(node, 0)
        if part.keys:
            event = BlockEvent(part.namespace_id, part.keys, part.tier)
            changes += (BlocksChanged(node.endpoint.node_id, event),)
        if part.is_last:
            node.inventory = _Inventory.FOLLOWED
            node.next_sequence = 1
        return Outcome(changes=changes)

    def _hear_events(self, node: _Node, batch: EventBatch) -> Outcome:
        if node.inventory is _Inventory.AWAITED:
            return Outcome()
        if node.inventory is _Inventory.ARRIVING or batch.sequence != node.next_sequence:
            return self._resync(node, batch.sequence)
        node.next_sequence += 1
        assert node.stream is not None  # it has just spoken
        node_id = node.endpoint.node_id
        return Outcome(
            answers=((node.stream, EventsAck(batch.sequence)),),
            changes=tuple(BlocksChanged(node_id, event) for event in batch.events),
        )

    def _hear_load(self, node: _Node, load: NodeLoad) -> Outcome:
        node.load = load
        if node.drain_order is not None and load.is_draining != node.drain_order.is_cancelled:
            node.drain_order = None
        changes = self._settle(node)
        if node.inventory is _Inventory.FOLLOWED and load.sequence != node.next_sequence - 1:
            return Outcome(changes=changes) + self._resync(node, load.sequence)
        return Outcome(changes=changes)

    def _resync(self, node: _Node, received_sequence: int) -> Outcome:
        expected = node.next_sequence
        node.inventory = _Inventory.AWAITED
        assert node.stream is not None  # the inventory of a suspect node is awaited already
        return Outcome(
            answers=((node.stream, ResyncOrder(expected, received_sequence)),),
            changes=(Resynced(node.endpoint.node_id, expected, received_sequence),),
        )
