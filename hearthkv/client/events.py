"""What a client tells its log. Declares events only."""

import logging
from dataclasses import dataclass
from typing import ClassVar

from hearthkv.client.load_gate import Decision
from hearthkv.client.load_rates import ReadPath, Source
from hearthkv.telemetry import Meters, MetricSpec

METRICS = (
    MetricSpec("counter", "client_peer_failures_total", "Calls that found no router or node"),
    MetricSpec("counter", "client_corrupt_blocks_total", "Blocks whose checksum was wrong"),
    MetricSpec("counter", "client_pulled_blocks_total", "Blocks loaded that another node sent"),
    MetricSpec("counter", "client_pull_wait_seconds_total", "Seconds that loads waited for those"),
    MetricSpec(
        "counter", "client_loaded_blocks_total", "Blocks loaded and verified, by path", ("path",)
    ),
    MetricSpec("counter", "client_loaded_bytes_total", "Payload bytes of these blocks", ("path",)),
    MetricSpec(
        "counter", "client_saved_blocks_total", "Blocks that nodes took, by path", ("path",)
    ),
    MetricSpec(
        "counter", "client_direct_refusals_total", "Nodes whose stores were left alone for a while"
    ),
    MetricSpec(
        "counter", "client_load_decisions_total", "Loads by what the gate found", ("verdict",)
    ),
    MetricSpec(
        "gauge",
        "client_read_bytes_per_second",
        "How fast a tier is read, as last estimated for any node",
        ("path", "tier"),
    ),
    MetricSpec(
        "gauge",
        "client_prefill_tokens_per_second",
        "How fast the engine computes, as last estimated for any model",
    ),
)
"""For the meters of a process with a client; `PrometheusMeters` wants them declared."""


@dataclass(frozen=True, slots=True)
class PeerFailed:
    """A router or node can't be reached and is left alone for a while."""

    LEVEL: ClassVar[int] = logging.WARNING
    address: str
    error: str
    cooldown_s: float

    def count(self, meters: Meters) -> None:
        """Count it."""
        meters.add("client_peer_failures_total")


@dataclass(frozen=True, slots=True)
class CorruptBlockDropped:
    """The bytes of a block did not match their checksum; its node was asked to forget it."""

    LEVEL: ClassVar[int] = logging.WARNING
    address: str
    block: int

    def count(self, meters: Meters) -> None:
        """Count it."""
        meters.add("client_corrupt_blocks_total")


@dataclass(frozen=True, slots=True)
class DirectPathOpened:
    """A node's stores are read and written by this client itself from now on."""

    LEVEL: ClassVar[int] = logging.DEBUG
    address: str
    servers: int
    """Redis servers of the node."""

    def count(self, meters: Meters) -> None:
        """Move no metric; the paths of the blocks tell."""


@dataclass(frozen=True, slots=True)
class DirectPathClosed:
    """A node's stores are left alone for a while; its blocks go through the node."""

    LEVEL: ClassVar[int] = logging.DEBUG
    address: str
    reason: str
    retry_s: float

    def count(self, meters: Meters) -> None:
        """Count it."""
        meters.add("client_direct_refusals_total")


@dataclass(frozen=True, slots=True)
class LoadDecided:
    """The gate compared loading with computing."""

    LEVEL: ClassVar[int] = logging.DEBUG
    source: Source
    asked: int
    """Blocks that could be loaded."""

    decision: Decision

    def count(self, meters: Meters) -> None:
        """Count it."""
        meters.add("client_load_decisions_total", verdict=self.decision.verdict.value)


@dataclass(frozen=True, slots=True)
class ArrivalsAwaited:
    """Blocks were loaded that another node had to send to the node first."""

    LEVEL: ClassVar[int] = logging.DEBUG
    address: str
    blocks: int
    awaited_s: float
    """How long the load waited for them."""

    def count(self, meters: Meters) -> None:
        """Count the blocks and the waiting."""
        meters.add("client_pulled_blocks_total", self.blocks)
        meters.add("client_pull_wait_seconds_total", self.awaited_s)


@dataclass(frozen=True, slots=True)
class BlocksLoaded:
    """A load is over, or that part of it which went one way."""

    LEVEL: ClassVar[int] = logging.DEBUG
    address: str
    path: ReadPath
    blocks: int
    size_bytes: int
    seconds: float

    def count(self, meters: Meters) -> None:
        """Count its blocks and bytes."""
        meters.add("client_loaded_blocks_total", self.blocks, path=self.path.value)
        meters.add("client_loaded_bytes_total", self.size_bytes, path=self.path.value)


@dataclass(frozen=True, slots=True)
class BlocksTaken:
    """A node answered for a batch of saved blocks, or that part of it which went one way."""

    LEVEL: ClassVar[int] = logging.DEBUG
    address: str
    path: ReadPath
    offered: int
    held: int
    """Blocks that the node has now, those that it had before included."""

    def count(self, meters: Meters) -> None:
        """Count the blocks that it has."""
        meters.add("client_saved_blocks_total", self.held, path=self.path.value)
