"""
Which nodes there are, and in which state. Pure: the hour is passed in.

A node lives through these states, by what its stream does::

    (unknown) --hello--> LIVE --stream breaks, or is silent--> SUSPECT --lease over--> (unknown)
                          ^                                       |
                          +------hello, or a word on its stream---+

A node that is cut off or stopped breaks no stream, so silence alone makes it suspect. What its
`Inventory` knows of its blocks is kept then: the first word on the stream makes it live again
with all of them.

A live node that is told to leave, or says in a heartbeat that it is about to, is DRAINING
until one of them says otherwise. The order counts at once, and what the node says counts
from the heartbeat on that agrees with the order: then it has heard it.

A node has one stream. A new hello under its name takes over at once, be it the same start of
the node or another: the old stream is closed, and what is still heard from it is nothing.
"""

from dataclasses import dataclass, field, replace

from hearthkv.core.errors import BadRequestError, LimitError, UnknownNodeError
from hearthkv.core.routing import (
    DrainOrder,
    EventBatch,
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
from hearthkv.core.session_id import NodeId
from router.inventory import Inventory, InventoryState, News
from router.outcome import (
    BlocksChanged,
    Change,
    DrainBegun,
    DrainEnded,
    InventoryCleared,
    Joined,
    Outcome,
    Recovered,
    Removed,
    Resynced,
    SessionLeft,
    StreamClosed,
    StreamId,
    Suspected,
)


@dataclass(slots=True)
class _Node:
    """One node."""

    endpoint: NodeEndpoint
    stream: StreamId | None
    """None while it has none."""

    heard_s: float
    joined_s: float
    inventory: Inventory
    is_silent: bool = False
    load: NodeLoad = field(default_factory=NodeLoad)
    drain_order: DrainOrder | None = None
    """None once the node has said that it follows it."""

    @property
    def node_id(self) -> NodeId:
        """Its name."""
        return self.endpoint.node_id

    @property
    def is_draining(self) -> bool:
        """Whether it gets no new session, as the last order has it, or else the node itself."""
        if self.drain_order is not None:
            return not self.drain_order.is_cancelled
        return self.load.is_draining


class Membership:
    """
    The nodes. See the module.

    Args:
        suspect_s: Silence after which a node gets no turns.
        lease_s: Silence after which it is forgotten.
        nodes_max: Nodes that may join.
    """

    def __init__(self, *, suspect_s: float, lease_s: float, nodes_max: int) -> None:
        self.version = 1
        """Grows with every change of `endpoints`."""
        self._suspect_s = suspect_s
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

    def inventory(self, node_id: NodeId) -> Inventory:
        """Return what is known of what a node, which must be known, says of its blocks."""
        return self._nodes[node_id].inventory

    def joined_s(self, node_id: NodeId) -> float:
        """Return the hour at which this start of a node, which must be known, was first heard."""
        return self._nodes[node_id].joined_s

    def silence_s(self, node_id: NodeId, now: float) -> float:
        """Return the time since the last message of a node, which must be known."""
        return now - self._nodes[node_id].heard_s

    def stream(self, node_id: NodeId) -> StreamId | None:
        """Return the stream of a node; None where it has none, or is not known."""
        node = self._nodes.get(node_id)
        return node.stream if node else None

    def speaker(self, stream: StreamId) -> NodeId | None:
        """Return whose stream this is; None where it is nobody's, or no more."""
        node_id = self._speakers.get(stream)
        return node_id if node_id is not None and self.stream(node_id) == stream else None

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
        if node is None:
            return _closed(stream, f"node {node_id} was forgotten, and must join anew")
        if node.stream != stream:
            return _closed(stream, _displaced(node.endpoint))
        node.heard_s, node.is_silent = now, False
        recovered = Outcome(changes=self._settle(node, now))
        return recovered + self._hear_news(node, message, now)

    def lose(self, stream: StreamId, now: float) -> Outcome:
        """Note that a stream is over, for whatever reason; its node is suspect from now on."""
        node_id = self._speakers.pop(stream, None)
        node = self._nodes.get(node_id) if node_id is not None else None
        if node is None or node.stream != stream:
            return Outcome()
        node.stream = None
        return Outcome(changes=self._settle(node, now))

    def sweep(self, now: float) -> Outcome:
        """
        Do what falls due with time, whether a node's stream is open or not.

        Nodes that are silent turn suspect, those whose lease is over are forgotten, and
        inventories that were asked for in vain are asked for again.
        """
        outcome = Outcome()
        for node in sorted(self._nodes.values(), key=lambda node: node.node_id):
            silence_s = now - node.heard_s
            if silence_s > self._lease_s:
                outcome += self._remove(node, silence_s)
            elif silence_s > self._suspect_s:
                node.is_silent = True
                outcome += Outcome(changes=self._settle(node, now))
            elif node.stream is not None:
                outcome += _told(node, node.inventory.overdue(now))
        return outcome

    def order_resync(self, node_id: NodeId, now: float) -> Outcome:
        """Ask a node for its inventory, if that is followed now."""
        node = self._nodes.get(node_id)
        if node is None or node.stream is None:
            return Outcome()
        if node.inventory.state is not InventoryState.FOLLOWED:
            return Outcome()
        return _told(node, node.inventory.order_resync(node.inventory.next_sequence, now))

    def order_drain(self, node_id: NodeId, now: float, *, is_cancelled: bool) -> Outcome:
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
        return Outcome(answers=answers, changes=self._settle(node, now))

    def _hear_hello(self, stream: StreamId, hello: NodeHello, now: float) -> Outcome:
        node_id = hello.endpoint.node_id
        if stream in self._speakers:
            raise BadRequestError(f"hello of {node_id} is the second of its stream, must be 1")
        before = self._nodes.get(node_id)
        if before is None and len(self._nodes) >= self._nodes_max:
            raise LimitError(f"{len(self._nodes)} nodes have joined, nodes_max is reached")
        endpoint = replace(hello.endpoint, state=NodeState.LIVE)
        node = _Node(endpoint, stream, heard_s=now, joined_s=now, inventory=Inventory(now))
        self._nodes[node_id] = node
        self._speakers[stream] = node_id
        self.version += 1
        answers: tuple[RouterMessage, ...] = (Welcome(self._lease_s),)
        cleared: tuple[Change, ...] = ()
        is_new = before is None or before.endpoint.epoch != endpoint.epoch
        if before is None or is_new:
            cleared = (InventoryCleared(node_id),)
        else:
            node.joined_s, node.load = before.joined_s, before.load
            node.drain_order = before.drain_order
            answers += () if before.drain_order is None else (before.drain_order,)
        return Outcome(
            answers=tuple((stream, answer) for answer in answers),
            changes=(*cleared, Joined(endpoint, is_new), *self._settle(node, now)),
            closed=()
            if before is None or before.stream is None
            else (StreamClosed(before.stream, _displaced(endpoint)),),
        )

    def _hear_news(
        self, node: _Node, message: SnapshotPart | EventBatch | SessionMoved | NodeLoad, now: float
    ) -> Outcome:
        if isinstance(message, SnapshotPart):
            return _told(node, node.inventory.hear_snapshot(message, now))
        if isinstance(message, EventBatch):
            return _told(node, node.inventory.hear_events(message, now))
        if isinstance(message, SessionMoved):
            left = SessionLeft(node.node_id, message.session_id, message.node_id)
            return Outcome(changes=(left,))
        return self._hear_load(node, message, now)

    def _hear_load(self, node: _Node, load: NodeLoad, now: float) -> Outcome:
        node.load = load
        if node.drain_order is not None and load.is_draining != node.drain_order.is_cancelled:
            node.drain_order = None
        changes = self._settle(node, now)
        return Outcome(changes=changes) + _told(node, node.inventory.hear_load(load, now))

    def _settle(self, node: _Node, now: float) -> tuple[Change, ...]:
        """Bring the state of a node up to date with what is known of it; return what changed."""
        before = node.endpoint.state
        state = NodeState.DRAINING if node.is_draining else NodeState.LIVE
        if node.stream is None or node.is_silent:
            state = NodeState.SUSPECT
        if state is before:
            return ()
        node.endpoint = replace(node.endpoint, state=state)
        self.version += 1
        if state is NodeState.SUSPECT:
            return (Suspected(node.node_id, now - node.heard_s),)
        if before is NodeState.SUSPECT:
            return (Recovered(node.node_id),)
        return (
            DrainBegun(node.node_id) if state is NodeState.DRAINING else DrainEnded(node.node_id),
        )

    def _remove(self, node: _Node, silence_s: float) -> Outcome:
        del self._nodes[node.node_id]
        self.version += 1
        changes = (InventoryCleared(node.node_id), Removed(node.node_id, silence_s))
        if node.stream is None:
            return Outcome(changes=changes)
        reason = f"node {node.node_id} said nothing for {silence_s:.1f} s, its lease is over"
        return Outcome(changes=changes) + _closed(node.stream, reason)


def _told(node: _Node, news: News) -> Outcome:
    """What follows from what a node said of its blocks."""
    changes: list[Change] = [InventoryCleared(node.node_id)] if news.is_void else []
    changes += [BlocksChanged(node.node_id, event) for event in news.events]
    if isinstance(news.answer, ResyncOrder):
        expected, received = news.answer.expected_sequence, news.answer.received_sequence
        changes.append(Resynced(node.node_id, expected, received))
    if news.answer is None or node.stream is None:
        return Outcome(changes=tuple(changes))
    return Outcome(answers=((node.stream, news.answer),), changes=tuple(changes))


def _closed(stream: StreamId, reason: str) -> Outcome:
    return Outcome(closed=(StreamClosed(stream, reason),))


def _displaced(newer: NodeEndpoint) -> str:
    return (
        f"node {newer.node_id} joined again, at {newer.address} with epoch {newer.epoch}: "
        "a name is for one node, and a node has one stream"
    )
