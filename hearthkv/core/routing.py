"""What clients, routers and nodes say to each other about placement and membership. Pure."""

import enum
from dataclasses import dataclass, field

from hearthkv.core.block_key import PackedKeys, SampledKeys
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier, TierCounts, TierUsage


class CacheHint(enum.Enum):
    """What the caller of a turn wants of the cache."""

    NONE = "none"
    REUSE = "reuse"
    BYPASS = "bypass"


class PlacementReason(enum.Enum):
    """Why a node was chosen."""

    SESSION = "session"
    HOME = "home"
    PREFIX = "prefix"
    FAILOVER = "failover"
    SPILL = "spill"
    DRAIN = "drain"
    OTHER = "other"
    """Read from a router that is newer than its reader; never decided here."""


class NodeState(enum.Enum):
    """Whether a node gets new turns."""

    LIVE = "live"
    SUSPECT = "suspect"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class NodeEndpoint:
    """Where a node is."""

    node_id: NodeId
    address: str
    """The node's gRPC server, host:port."""

    engine_url: str = ""
    """Base URL of the engine beside it; empty where there is none."""

    epoch: int = 0
    """Changes with every start of the node."""

    weight: float = 1.0
    """Share of the sessions that it wants, relative to others; over 0."""

    state: NodeState = NodeState.LIVE


@dataclass(frozen=True, slots=True)
class RouteQuery:
    """A turn that wants a node."""

    session_id: SessionId
    namespace_id: bytes
    keys: SampledKeys
    hint: CacheHint
    prompt_tokens: int
    block_size: int
    """Tokens in a block."""

    settled_blocks: int = 0
    """Leading blocks that the session's last prompt had too: where to begin the search."""


@dataclass(frozen=True, slots=True)
class PullSource:
    """A node to fetch a prefix from."""

    node: NodeEndpoint
    blocks: int
    """Leading blocks of the prompt that it holds."""


@dataclass(frozen=True, slots=True)
class Route:
    """The node for a turn, with the address to reach it at."""

    node: NodeEndpoint
    matched: TierCounts
    home_node_id: NodeId
    reason: PlacementReason
    pull_from: tuple[PullSource, ...] = ()
    """Who holds more of the prompt than `node`, best first."""


@dataclass(frozen=True, slots=True)
class NodeMatch:
    """How many leading blocks of a prompt one node holds."""

    node_id: NodeId
    matched: TierCounts


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What a node said of itself in its last heartbeat."""

    sequence: int = 0
    """Number of the last events message that it sent."""

    tiers: tuple[TierUsage, ...] = ()
    calls_in_flight: int = 0
    uncached_tokens: int = 0
    """Prompt tokens of the turns under way that were not held."""

    is_draining: bool = False


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node and its load, for people."""

    endpoint: NodeEndpoint
    load: NodeLoad
    indexed_blocks: int
    sessions: int
    silence_s: float
    uncached_tokens: int = 0
    """Prompt tokens that its engine has yet to compute, as the router reckons."""


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """A session as the router knows it, for people."""

    session_id: SessionId
    node_id: NodeId
    turns: int
    prompt_tokens: int
    matched_blocks: int
    idle_s: float


@dataclass(frozen=True, slots=True)
class NodeHello:
    """A node's first words to a router."""

    endpoint: NodeEndpoint
    version: str = ""


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """A part of a node's inventory: keys of one namespace in one tier."""

    namespace_id: bytes
    tier: Tier | None
    """None only in the one part of an empty inventory."""

    keys: PackedKeys
    is_first: bool
    is_last: bool


@dataclass(frozen=True, slots=True)
class BlockEvent:
    """Blocks of one namespace came, moved or went."""

    namespace_id: bytes
    keys: PackedKeys
    tier: Tier | None
    """Where the blocks are now; None: held no more."""


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Numbered events: 1 is the first batch after a snapshot."""

    sequence: int
    events: tuple[BlockEvent, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class SessionMoved:
    """A session's blocks are whole on another node now, and its turns belong there."""

    session_id: SessionId
    node_id: NodeId


NodeMessage = NodeHello | SnapshotPart | EventBatch | NodeLoad | SessionMoved
"""What a node says on the membership stream."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """The router accepts a node."""

    lease_s: float
    """Silence after which the router forgets the node."""


@dataclass(frozen=True, slots=True)
class EventsAck:
    """The router has taken in a batch."""

    sequence: int


@dataclass(frozen=True, slots=True)
class ResyncOrder:
    """The router has missed a batch and wants the inventory anew."""

    expected_sequence: int
    received_sequence: int


@dataclass(frozen=True, slots=True)
class PrefetchOrder:
    """The router expects a turn at once on the prefix that ends in `tip_key`."""

    namespace_id: bytes
    tip_key: bytes


@dataclass(frozen=True, slots=True)
class PullOrder:
    """The node is to fetch a prefix from another node."""

    namespace_id: bytes
    tip_key: bytes
    blocks: int
    source_address: str
    session_id: SessionId | None = None


@dataclass(frozen=True, slots=True)
class DrainOrder:
    """The node is to hand its sessions over and leave, or to stay after all."""

    is_cancelled: bool = False


RouterMessage = Welcome | EventsAck | ResyncOrder | PrefetchOrder | PullOrder | DrainOrder
"""What a router says on the membership stream."""
