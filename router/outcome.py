"""What follows when something happens to nodes: answers, changes, closed streams. Pure."""

from dataclasses import dataclass
from typing import NewType

from hearthkv.core.routing import BlockEvent, NodeEndpoint, RouterMessage
from hearthkv.core.session_id import NodeId, SessionId
from router.feed_alarms import Feed, FeedTrouble

StreamId = NewType("StreamId", int)


@dataclass(frozen=True, slots=True)
class Joined:
    """A node said hello; `is_new` unless it was known under this epoch."""

    endpoint: NodeEndpoint
    is_new: bool


@dataclass(frozen=True, slots=True)
class Suspected:
    """A node gets no turns: its stream broke, or nothing was heard on it for too long."""

    node_id: NodeId
    silence_s: float


@dataclass(frozen=True, slots=True)
class Recovered:
    """A silent node was heard again, on the stream that it had."""

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
class FeedAlarmed:
    """A node serves, but does not tell truly what it holds."""

    node_id: NodeId
    trouble: FeedTrouble
    feed: Feed


@dataclass(frozen=True, slots=True)
class FeedHealed:
    """A node that did not tell truly what it holds does so again."""

    node_id: NodeId


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
    | Recovered
    | DrainBegun
    | DrainEnded
    | Removed
    | Resynced
    | FeedAlarmed
    | FeedHealed
    | InventoryCleared
    | BlocksChanged
    | SessionLeft
)


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """A stream has nothing to say any more."""

    stream: StreamId
    reason: str
    """For the node, and for who reads its log."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What follows from something that happened."""

    answers: tuple[tuple[StreamId, RouterMessage], ...] = ()
    changes: tuple[Change, ...] = ()
    """In the order in which they happened."""

    closed: tuple[StreamClosed, ...] = ()

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(
            self.answers + other.answers, self.changes + other.changes, self.closed + other.closed
        )
