"""What a cache node tells of prefixes that move between nodes, and the metrics of that."""

import logging
from dataclasses import dataclass
from typing import ClassVar

from hearthkv.core.pulls import PullEnd
from hearthkv.telemetry import Meters, MetricSpec

MOVE_METRICS = (
    MetricSpec("counter", "cachenode_pulls_total", "Pulls, by their end.", ("outcome",)),
    MetricSpec("counter", "cachenode_pulled_blocks_total", "Blocks fetched from other nodes."),
    MetricSpec("counter", "cachenode_pulled_bytes_total", "Payload bytes of those blocks."),
    MetricSpec("gauge", "cachenode_pulls_in_flight", "Pulls under way."),
    MetricSpec(
        "counter", "cachenode_handoffs_total", "Prefixes offered to other nodes.", ("outcome",)
    ),
    MetricSpec("gauge", "cachenode_draining", "1 while the node is about to leave, else 0."),
    MetricSpec("gauge", "cachenode_uncached_tokens", "Prompt tokens that the engine computes."),
)


@dataclass(frozen=True, slots=True)
class PullEnded:
    """A prefix was fetched from another node, or as much of it as could be."""

    LEVEL: ClassVar[int] = logging.DEBUG
    source: str
    end: PullEnd | None
    """None where it was given up, for nobody wanted it any more."""

    blocks: int
    """That were fetched: not those that were held before."""

    size_bytes: int
    """Of all of them."""

    def count(self, meters: Meters) -> None:
        """Count the pull, and what it brought."""
        outcome = "given_up" if self.end is None else self.end.value
        meters.add("cachenode_pulls_total", outcome=outcome)
        meters.add("cachenode_pulled_blocks_total", self.blocks)
        meters.add("cachenode_pulled_bytes_total", self.size_bytes)


@dataclass(frozen=True, slots=True)
class DrainBegun:
    """The node is about to leave, and hands its sessions over."""

    LEVEL: ClassVar[int] = logging.INFO
    sessions: int

    def count(self, meters: Meters) -> None:
        """Move nothing."""


@dataclass(frozen=True, slots=True)
class DrainCancelled:
    """The node stays after all."""

    LEVEL: ClassVar[int] = logging.INFO

    def count(self, meters: Meters) -> None:
        """Move nothing."""


@dataclass(frozen=True, slots=True)
class DrainEnded:
    """The node leaves now: all is handed over, or its time is over, or it has no peer."""

    LEVEL: ClassVar[int] = logging.INFO
    sessions_left: int
    """Whose blocks are here alone."""

    peers: int
    """Nodes that could take them; 0: this one is alone."""

    def count(self, meters: Meters) -> None:
        """Move nothing."""


@dataclass(frozen=True, slots=True)
class SessionHandedOver:
    """A session's prefixes were offered to another node."""

    LEVEL: ClassVar[int] = logging.DEBUG
    target: str
    end: PullEnd
    blocks: int
    """Of the prefixes that were offered: the target fetched those that it did not hold."""

    def count(self, meters: Meters) -> None:
        """Count the offer."""
        meters.add("cachenode_handoffs_total", outcome=self.end.value)


def show_pulls(meters: Meters, in_flight: int) -> None:
    """Set the gauge of the pulls under way."""
    meters.set("cachenode_pulls_in_flight", in_flight)


def show_draining(meters: Meters, *, is_draining: bool) -> None:
    """Set the gauge of a node that is about to leave."""
    meters.set("cachenode_draining", int(is_draining))


def show_uncached(meters: Meters, tokens: int) -> None:
    """Set the gauge of what the engine has to compute."""
    meters.set("cachenode_uncached_tokens", tokens)
