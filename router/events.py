"""What the router reports of itself: events, each a log line and a metric, and the metrics."""

import enum
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from hearthkv.core.routing import NodeState, PlacementReason
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier, TierCounts
from hearthkv.telemetry import Meters, MetricSpec
from router.feed_alarms import FeedTrouble

METRICS = (
    MetricSpec("counter", "router_placements_total", "Turns that were placed.", ("reason",)),
    MetricSpec("counter", "router_refusals_total", "Calls that failed.", ("reason",)),
    MetricSpec("counter", "router_prompt_tokens_total", "Prompt tokens of the turns placed."),
    MetricSpec(
        "counter",
        "router_matched_tokens_total",
        "Prompt tokens that the chosen node holds, as far as the router knows.",
        ("tier",),
    ),
    MetricSpec(
        "gauge",
        "router_cache_hit_ratio",
        "Matched tokens per prompt token since the router started.",
        ("tier",),
    ),
    MetricSpec("gauge", "router_nodes", "Nodes by state.", ("state",)),
    MetricSpec("gauge", "router_index_keys", "Blocks in the index, summed over the nodes."),
    MetricSpec("gauge", "router_sessions", "Sessions that are remembered."),
    MetricSpec("gauge", "router_hot_prefixes", "Prefixes that many sessions share now."),
    MetricSpec(
        "gauge",
        "router_feed_alarms",
        "Nodes that serve, but don't tell truly what they hold.",
        ("trouble",),
    ),
    MetricSpec(
        "gauge",
        "router_index_lag_seconds",
        "Time for which the index has differed from what the worst node says of itself.",
    ),
    MetricSpec("counter", "router_resyncs_total", "Inventories that were asked for again."),
    MetricSpec("counter", "router_prefetches_total", "Prefetch orders to nodes.", ("outcome",)),
    MetricSpec(
        "counter",
        "router_pulls_total",
        "Orders to nodes to fetch a prefix from another node.",
        ("cause", "outcome"),
    ),
    MetricSpec(
        "counter",
        "router_pulled_blocks_total",
        "Blocks of these prefixes, at most: what a node holds already is not moved.",
        ("cause",),
    ),
)


@dataclass(frozen=True, slots=True)
class PlacementMade:
    """A turn was given a node."""

    LEVEL: ClassVar[int] = logging.INFO

    session_id: SessionId
    node_id: NodeId
    home_node_id: NodeId
    reason: PlacementReason
    prompt_tokens: int
    matched_tokens: TierCounts
    hit_ratios: Mapping[str, float]
    """Of all turns so far: `total` and by tier."""

    def count(self, meters: Meters) -> None:
        """Count the turn and its tokens."""
        meters.add("router_placements_total", reason=self.reason.value)
        meters.add("router_prompt_tokens_total", self.prompt_tokens)
        for tier in Tier:
            tokens = self.matched_tokens.of(tier)
            meters.add("router_matched_tokens_total", tokens, tier=tier.name.lower())
        for tier_name, ratio in self.hit_ratios.items():
            meters.set("router_cache_hit_ratio", ratio, tier=tier_name)


@dataclass(frozen=True, slots=True)
class CallRefused:
    """A call ended in an error."""

    LEVEL: ClassVar[int] = logging.DEBUG

    call: str
    reason: str
    """The stable reason of the error."""

    text: str

    def count(self, meters: Meters) -> None:
        """Count the refusal."""
        meters.add("router_refusals_total", reason=self.reason)


@dataclass(frozen=True, slots=True)
class PrefetchOrdered:
    """A node was asked to lift the blocks of a turn, or was too busy to be asked."""

    LEVEL: ClassVar[int] = logging.DEBUG

    node_id: NodeId
    is_sent: bool

    def count(self, meters: Meters) -> None:
        """Count the order."""
        meters.add("router_prefetches_total", outcome="sent" if self.is_sent else "dropped")


class PullCause(enum.Enum):
    """Why a node was asked to fetch a prefix from another one."""

    TURN = "turn"
    """A turn was placed where less of its prompt is held than elsewhere."""

    HOT = "hot"
    """Many sessions share the prefix."""


@dataclass(frozen=True, slots=True)
class PullOrdered:
    """A node was asked to fetch a prefix from another one, or was too busy to be asked."""

    LEVEL: ClassVar[int] = logging.DEBUG

    node_id: NodeId
    source_address: str
    blocks: int
    cause: PullCause
    is_sent: bool

    def count(self, meters: Meters) -> None:
        """Count the order, and its blocks where it was sent."""
        outcome = "sent" if self.is_sent else "dropped"
        meters.add("router_pulls_total", cause=self.cause.value, outcome=outcome)
        if self.is_sent:
            meters.add("router_pulled_blocks_total", self.blocks, cause=self.cause.value)


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node said hello."""

    LEVEL: ClassVar[int] = logging.INFO

    node_id: NodeId
    address: str
    epoch: int
    is_new: bool
    """False where the same start of the node came back on another stream."""

    def count(self, meters: Meters) -> None:
        """Move nothing: `router_nodes` is measured."""


@dataclass(frozen=True, slots=True)
class NodeSuspected:
    """A node gets no turns: its stream broke, or nothing was heard on it for too long."""

    LEVEL: ClassVar[int] = logging.WARNING

    node_id: NodeId
    silence_s: float

    def count(self, meters: Meters) -> None:
        """Move nothing: `router_nodes` is measured."""


@dataclass(frozen=True, slots=True)
class NodeRecovered:
    """A silent node was heard again, and gets turns."""

    LEVEL: ClassVar[int] = logging.INFO

    node_id: NodeId

    def count(self, meters: Meters) -> None:
        """Move nothing: `router_nodes` is measured."""


@dataclass(frozen=True, slots=True)
class DrainBegun:
    """A node is about to leave; it gets no new session."""

    LEVEL: ClassVar[int] = logging.INFO

    node_id: NodeId

    def count(self, meters: Meters) -> None:
        """Move nothing: `router_nodes` is measured."""


@dataclass(frozen=True, slots=True)
class DrainEnded:
    """A node that was about to leave stays."""

    LEVEL: ClassVar[int] = logging.INFO

    node_id: NodeId

    def count(self, meters: Meters) -> None:
        """Move nothing: `router_nodes` is measured."""


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """A node's lease is over; its blocks are forgotten."""

    LEVEL: ClassVar[int] = logging.WARNING

    node_id: NodeId
    silence_s: float

    def count(self, meters: Meters) -> None:
        """Move nothing: `router_nodes` is measured."""


@dataclass(frozen=True, slots=True)
class NodeResynced:
    """A node was asked for its inventory again."""

    LEVEL: ClassVar[int] = logging.WARNING

    node_id: NodeId
    expected_sequence: int
    received_sequence: int

    def count(self, meters: Meters) -> None:
        """Count the resync."""
        meters.add("router_resyncs_total")


@dataclass(frozen=True, slots=True)
class FeedAlarmed:
    """A node serves, but does not tell truly what it holds: turns find too little or too much."""

    LEVEL: ClassVar[int] = logging.WARNING

    node_id: NodeId
    trouble: FeedTrouble
    said_blocks: int
    """Blocks that it has, by its heartbeats."""

    named_blocks: int
    """Blocks that it named."""

    def count(self, meters: Meters) -> None:
        """Move nothing: `router_feed_alarms` is measured."""


@dataclass(frozen=True, slots=True)
class FeedHealed:
    """A node that did not tell truly what it holds does so again."""

    LEVEL: ClassVar[int] = logging.INFO

    node_id: NodeId

    def count(self, meters: Meters) -> None:
        """Move nothing: `router_feed_alarms` is measured."""


@dataclass(frozen=True, slots=True)
class StreamOverflowed:
    """A node does not read its answers; its stream was closed."""

    LEVEL: ClassVar[int] = logging.WARNING

    answers: int

    def count(self, meters: Meters) -> None:
        """Move nothing: the node turns suspect, which `router_nodes` shows."""


@dataclass(frozen=True, slots=True)
class ClusterMeasured:
    """The sizes of what a router knows."""

    LEVEL: ClassVar[int] = logging.NOTSET  # several times a second: for the metrics alone

    nodes: Mapping[NodeState, int]
    index_keys: int
    sessions: int
    hot_prefixes: int
    feed_alarms: Mapping[FeedTrouble, int]
    index_lag_s: float

    def count(self, meters: Meters) -> None:
        """Set the gauges."""
        for state, nodes in self.nodes.items():
            meters.set("router_nodes", nodes, state=state.value)
        meters.set("router_index_keys", self.index_keys)
        meters.set("router_sessions", self.sessions)
        meters.set("router_hot_prefixes", self.hot_prefixes)
        for trouble, nodes in self.feed_alarms.items():
            meters.set("router_feed_alarms", nodes, trouble=trouble.value)
        meters.set("router_index_lag_seconds", self.index_lag_s)


@dataclass(frozen=True, slots=True)
class RouterStarted:
    """A router serves."""

    LEVEL: ClassVar[int] = logging.INFO

    address: str
    metrics_address: str

    def count(self, meters: Meters) -> None:
        """Move nothing."""


@dataclass(frozen=True, slots=True)
class RouterStopped:
    """A router ended cleanly."""

    LEVEL: ClassVar[int] = logging.INFO

    address: str

    def count(self, meters: Meters) -> None:
        """Move nothing."""
