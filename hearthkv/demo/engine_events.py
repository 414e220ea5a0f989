"""What the reference engine logs and counts."""

import logging
from dataclasses import dataclass, field
from typing import ClassVar

from hearthkv.core.tier import Tier, TierCounts
from hearthkv.telemetry import Meters, MetricSpec

METRICS = (
    MetricSpec(
        "histogram",
        "engine_ttft_seconds",
        "Time from a request's arrival to its first token",
        buckets=(0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4),
    ),
    MetricSpec("counter", "engine_prompt_tokens_total", "Prompt tokens of all requests"),
    MetricSpec(
        "counter", "engine_cached_tokens_total", "Prompt tokens served from the cache", ("tier",)
    ),
    MetricSpec(
        "gauge",
        "engine_cache_hit_ratio",
        "Prompt tokens served from cache / prompt tokens, since the start",
        ("tier",),
    ),
    MetricSpec("counter", "engine_requests_total", "Requests by outcome", ("outcome",)),
    MetricSpec("gauge", "engine_hbm_used_bytes", "Bytes in the engine's own block pool"),
    MetricSpec("gauge", "engine_hbm_limit_bytes", "Bytes that the pool may hold"),
    MetricSpec("counter", "engine_saved_blocks_total", "Blocks that the cache node has taken"),
)


@dataclass(slots=True)
class HitRatio:
    """
    Prompt tokens, and how many of them came from which tier, since the process started.

    `cache_hit_ratio` = prompt tokens served from cache / prompt tokens.
    """

    prompt_tokens: int = 0
    cached: TierCounts = field(default_factory=TierCounts)

    def add(self, prompt_tokens: int, cached: TierCounts) -> None:
        """Count one request; `cached` is in tokens."""
        self.prompt_tokens += prompt_tokens
        self.cached += cached

    def by_tier(self) -> dict[str, float]:
        """Return the ratio in total and by tier; all 0 before the first request."""
        tokens = max(self.prompt_tokens, 1)
        ratios = {tier.name.lower(): self.cached.of(tier) / tokens for tier in Tier}
        return {"total": self.cached.total / tokens, **ratios}


@dataclass(frozen=True, slots=True)
class TurnServed:
    """A request got its first token."""

    LEVEL: ClassVar[int] = logging.INFO

    session: str
    prompt_tokens: int
    cached_hbm: int
    cached_dram: int
    cached_ssd: int
    ttft_s: float
    cache_hit_ratio: float
    """Of this request."""

    total_cache_hit_ratio: float
    """Of all requests since the start."""

    miss: str
    """Why the node brought no more; empty where it brought all that it held."""

    def count(self, meters: Meters) -> None:
        """Move the metrics that stand for this event."""
        meters.observe("engine_ttft_seconds", self.ttft_s)
        meters.add("engine_prompt_tokens_total", self.prompt_tokens)
        meters.add("engine_cached_tokens_total", self.cached_hbm, tier="hbm")
        meters.add("engine_cached_tokens_total", self.cached_dram, tier="dram")
        meters.add("engine_cached_tokens_total", self.cached_ssd, tier="ssd")


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """A request ended: `stop`, `length`, `cancelled`, `refused` or `failed`."""

    LEVEL: ClassVar[int] = logging.DEBUG

    outcome: str
    completion_tokens: int = 0

    def count(self, meters: Meters) -> None:
        """Move the metrics that stand for this event."""
        meters.add("engine_requests_total", outcome=self.outcome)


@dataclass(frozen=True, slots=True)
class BlocksSaved:
    """The cache node answered for a turn's new blocks."""

    LEVEL: ClassVar[int] = logging.DEBUG

    session: str
    saved: int
    offered: int
    seconds: float

    def count(self, meters: Meters) -> None:
        """Move the metrics that stand for this event."""
        meters.add("engine_saved_blocks_total", self.saved)


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    """The engine has its weights and can serve."""

    LEVEL: ClassVar[int] = logging.INFO

    model: str
    revision: str
    block_bytes: int
    hbm_limit_bytes: int
    seconds: float

    def count(self, meters: Meters) -> None:
        """Move the metrics that stand for this event."""
        meters.set("engine_hbm_limit_bytes", self.hbm_limit_bytes)
