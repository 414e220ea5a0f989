"""What a cache node tells of itself: its events, and the metrics that they move."""

import enum
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from cachenode.move_events import MOVE_METRICS
from hearthkv.core.block_io import WriteStatus
from hearthkv.core.tier import Tier, TierUsage
from hearthkv.telemetry import Meters, MetricSpec

_TIER = ("tier",)

METRICS = (
    MetricSpec("gauge", "cachenode_tier_used_bytes", "Bytes stored, frames included.", _TIER),
    MetricSpec("gauge", "cachenode_tier_reserved_bytes", "Bytes promised to writes.", _TIER),
    MetricSpec("gauge", "cachenode_tier_limit_bytes", "Bytes that a tier may hold.", _TIER),
    MetricSpec("gauge", "cachenode_tier_blocks", "Blocks in a tier.", _TIER),
    MetricSpec("gauge", "cachenode_tier_healthy", "1 where a tier takes blocks, else 0.", _TIER),
    MetricSpec("counter", "cachenode_asked_blocks_total", "Blocks asked for by reads."),
    MetricSpec("counter", "cachenode_read_blocks_total", "Blocks read.", _TIER),
    MetricSpec("counter", "cachenode_read_bytes_total", "Payload bytes read.", _TIER),
    MetricSpec(
        "gauge",
        "cachenode_cache_hit_ratio",
        "Blocks read by tier (or total), of those asked for since the start.",
        _TIER,
    ),
    MetricSpec("counter", "cachenode_located_blocks_total", "Blocks read directly.", _TIER),
    MetricSpec("counter", "cachenode_located_bytes_total", "Bytes read directly.", _TIER),
    MetricSpec("counter", "cachenode_writes_total", "Blocks offered, by outcome.", ("status",)),
    MetricSpec("counter", "cachenode_written_bytes_total", "Payload bytes stored by writes."),
    MetricSpec(
        "counter", "cachenode_reservations_total", "Direct writes, by their end.", ("outcome",)
    ),
    MetricSpec("counter", "cachenode_evicted_blocks_total", "Blocks dropped to make room."),
    MetricSpec("counter", "cachenode_demoted_blocks_total", "Blocks moved from DRAM to SSD."),
    MetricSpec("counter", "cachenode_promoted_blocks_total", "Blocks moved from SSD to DRAM."),
    MetricSpec(
        "counter",
        "cachenode_moved_bytes_total",
        "Payload bytes copied from one tier to another.",
        ("source", "target"),
    ),
    MetricSpec(
        "gauge",
        "cachenode_write_amplification",
        "Bytes copied between tiers per byte stored by writes, since the start.",
    ),
    MetricSpec("counter", "cachenode_lost_blocks_total", "Blocks that were lost.", ("cause",)),
    *MOVE_METRICS,
)


@dataclass(frozen=True, slots=True)
class NodeStarted:
    """The node serves."""

    LEVEL: ClassVar[int] = logging.INFO
    node_id: str
    epoch: str
    address: str
    version: str

    def count(self, meters: Meters) -> None:
        """Move nothing."""


@dataclass(frozen=True, slots=True)
class NodeStopping:
    """The node was told to stop, and lets running calls finish."""

    LEVEL: ClassVar[int] = logging.INFO
    calls_in_flight: int

    def count(self, meters: Meters) -> None:
        """Move nothing."""


@dataclass(frozen=True, slots=True)
class CatalogRestored:
    """The stores were scanned, and what they hold is known again."""

    LEVEL: ClassVar[int] = logging.INFO
    blocks: int
    orphans: int
    """Copies without an ancestor; they are erased."""

    duplicates: int
    removed: int
    """Torn or damaged entries that were removed."""

    took_s: float

    def count(self, meters: Meters) -> None:
        """Move nothing."""


@dataclass(frozen=True, slots=True)
class TierTroubled:
    """A tier takes no blocks for now; the node goes on with the other."""

    LEVEL: ClassVar[int] = logging.WARNING
    tier: Tier
    trouble: str

    def count(self, meters: Meters) -> None:
        """Mark the tier."""
        meters.set("cachenode_tier_healthy", 0, tier=self.tier.name.lower())


@dataclass(frozen=True, slots=True)
class TierHealed:
    """A tier takes blocks again."""

    LEVEL: ClassVar[int] = logging.WARNING
    tier: Tier

    def count(self, meters: Meters) -> None:
        """Mark the tier."""
        meters.set("cachenode_tier_healthy", 1, tier=self.tier.name.lower())


@dataclass(frozen=True, slots=True)
class TierForgotten:
    """A store came back emptied or replaced: its blocks, and what hung on them, are forgotten."""

    LEVEL: ClassVar[int] = logging.WARNING
    tier: Tier
    blocks: int

    def count(self, meters: Meters) -> None:
        """Count the blocks."""
        meters.add("cachenode_lost_blocks_total", self.blocks, cause="store_replaced")


@dataclass(frozen=True, slots=True)
class StoreAdvised:
    """A store works, but an operator should change something."""

    LEVEL: ClassVar[int] = logging.WARNING
    tier: Tier
    advice: str

    def count(self, meters: Meters) -> None:
        """Move nothing."""


@dataclass(frozen=True, slots=True)
class BlockLost:
    """A held block's bytes were gone or damaged: it was dropped with what hung on it."""

    LEVEL: ClassVar[int] = logging.WARNING
    tier: Tier
    key: str
    reason: str
    blocks: int
    """Dropped with it, itself included."""

    def count(self, meters: Meters) -> None:
        """Count the blocks."""
        meters.add("cachenode_lost_blocks_total", self.blocks, cause="bad_bytes")


@dataclass(frozen=True, slots=True)
class BlocksRead:
    """Blocks of a tier were read and are about to be sent."""

    LEVEL: ClassVar[int] = logging.DEBUG
    tier: Tier
    blocks: int
    size_bytes: int
    """Of all of them."""

    def count(self, meters: Meters) -> None:
        """Count the blocks."""
        tier = self.tier.name.lower()
        meters.add("cachenode_read_blocks_total", self.blocks, tier=tier)
        meters.add("cachenode_read_bytes_total", self.size_bytes, tier=tier)


@dataclass(frozen=True, slots=True)
class BlocksAsked:
    """A read asked for blocks."""

    LEVEL: ClassVar[int] = logging.DEBUG
    blocks: int
    planned: int

    def count(self, meters: Meters) -> None:
        """Count what was asked for."""
        meters.add("cachenode_asked_blocks_total", self.blocks)


@dataclass(frozen=True, slots=True)
class BlocksLocated:
    """A client on the host was told where blocks of a tier lie, and reads them itself."""

    LEVEL: ClassVar[int] = logging.DEBUG
    tier: Tier
    blocks: int
    size_bytes: int
    """Of all of them."""

    def count(self, meters: Meters) -> None:
        """Count the blocks as read, and as read directly."""
        tier = self.tier.name.lower()
        for verb in ("read", "located"):
            meters.add(f"cachenode_{verb}_blocks_total", self.blocks, tier=tier)
            meters.add(f"cachenode_{verb}_bytes_total", self.size_bytes, tier=tier)


class ReservationEnd(enum.Enum):
    """How a client's direct write ended."""

    COMMITTED = "committed"
    GIVEN_UP = "given_up"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class ReservationEnded:
    """A client committed its direct write, gave it up, or was not in time."""

    LEVEL: ClassVar[int] = logging.DEBUG
    end: ReservationEnd
    blocks: int

    def count(self, meters: Meters) -> None:
        """Count the reservation."""
        meters.add("cachenode_reservations_total", outcome=self.end.value)


@dataclass(frozen=True, slots=True)
class BlockWritten:
    """A block was offered to the node."""

    LEVEL: ClassVar[int] = logging.DEBUG
    status: WriteStatus
    size_bytes: int

    def count(self, meters: Meters) -> None:
        """Count the block, and its bytes where they were stored."""
        meters.add("cachenode_writes_total", status=self.status.value)
        if self.status is WriteStatus.STORED:
            meters.add("cachenode_written_bytes_total", self.size_bytes)


@dataclass(frozen=True, slots=True)
class BlocksEvicted:
    """Blocks left the cache to make room."""

    LEVEL: ClassVar[int] = logging.DEBUG
    blocks: int

    def count(self, meters: Meters) -> None:
        """Count the blocks."""
        meters.add("cachenode_evicted_blocks_total", self.blocks)


@dataclass(frozen=True, slots=True)
class BlocksMoved:
    """Blocks were copied from one tier to another."""

    LEVEL: ClassVar[int] = logging.DEBUG
    source: Tier
    target: Tier
    blocks: int
    """Those that changed their tier: what was dropped meanwhile was copied for nothing."""

    size_bytes: int
    """Of all that were copied."""

    def count(self, meters: Meters) -> None:
        """Count the moves and their bytes."""
        is_down = self.target > self.source
        meters.add(f"cachenode_{'demoted' if is_down else 'promoted'}_blocks_total", self.blocks)
        meters.add(
            "cachenode_moved_bytes_total",
            self.size_bytes,
            source=self.source.name.lower(),
            target=self.target.name.lower(),
        )


@dataclass(frozen=True, slots=True)
class RouterJoined:
    """A router accepted the node."""

    LEVEL: ClassVar[int] = logging.INFO
    router: str
    lease_s: float

    def count(self, meters: Meters) -> None:
        """Move nothing."""


@dataclass(frozen=True, slots=True)
class RouterLost:
    """The stream to a router broke or could not be opened; the node keeps trying."""

    LEVEL: ClassVar[int] = logging.WARNING
    router: str
    reason: str

    def count(self, meters: Meters) -> None:
        """Move nothing."""


@dataclass(frozen=True, slots=True)
class NodeMeasured:
    """What the node holds and what its reads found, said now and then while it changes."""

    LEVEL: ClassVar[int] = logging.INFO

    used_bytes: Mapping[str, int]
    """By tier."""

    blocks: Mapping[str, int]
    """By tier."""

    cache_hit_ratio: Mapping[str, float]
    """Blocks read of those asked for since the start: by tier, and `total`."""

    def count(self, meters: Meters) -> None:
        """Move nothing: the gauges are set every second."""


def measured(usages: Sequence[TierUsage], ratios: Mapping[Tier, float]) -> NodeMeasured:
    """Return an event of what a node holds and found."""
    return NodeMeasured(
        used_bytes={usage.tier.name.lower(): usage.used_bytes for usage in usages},
        blocks={usage.tier.name.lower(): usage.blocks for usage in usages},
        cache_hit_ratio={
            **{tier.name.lower(): ratio for tier, ratio in ratios.items()},
            "total": sum(ratios.values()),
        },
    )


def show_usage(meters: Meters, usages: tuple[TierUsage, ...]) -> None:
    """Set the gauges of the tiers."""
    for usage in usages:
        tier = usage.tier.name.lower()
        meters.set("cachenode_tier_used_bytes", usage.used_bytes, tier=tier)
        meters.set("cachenode_tier_reserved_bytes", usage.reserved_bytes, tier=tier)
        meters.set("cachenode_tier_limit_bytes", usage.limit_bytes, tier=tier)
        meters.set("cachenode_tier_blocks", usage.blocks, tier=tier)
        meters.set("cachenode_tier_healthy", 0 if usage.trouble else 1, tier=tier)


def show_hit_ratio(meters: Meters, ratios: Mapping[Tier, float]) -> None:
    """Set the gauges of what reads found, by tier and in total."""
    for tier, ratio in ratios.items():
        meters.set("cachenode_cache_hit_ratio", ratio, tier=tier.name.lower())
    meters.set("cachenode_cache_hit_ratio", sum(ratios.values()), tier="total")


def show_write_amplification(meters: Meters, moved_bytes: int, written_bytes: int) -> None:
    """Set the gauge of what moving blocks costs; 0 until something was written."""
    amplification = moved_bytes / written_bytes if written_bytes else 0.0
    meters.set("cachenode_write_amplification", amplification)
