"""
Load or recompute: how much of a cached prefix is sooner read than computed. Pure.

A cache that is slower than the engine makes the first token later, not earlier. So the gate
compares, for every prefix of what is held,

    gain = tokens / prefill rate  -  latency  -  sum over tiers of bytes / read rate

and chooses the prefix with the largest gain: a slow run pays where a fast one behind it makes
up for it. Tiers are counted as if they were read one after the other; where they are read at
once they still share the cores, so that is close, and errs towards computing.

Where a figure is not known the answer is to load: so figures become known. A load that takes
longer than the prefill that it saves is given up then, which bounds what an error costs. And now
and then a little of what was refused is read all the same, for a bad moment must not last.
"""

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from hearthkv.client.load_rates import LoadRates, Source, SourceRates
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier, TierCounts

PROBE_AFTER_S: Final = 30.0
"""A tier that is refused is tried again so long after it was read last."""

PROBE_BYTES: Final = 8 * 1024 * 1024
PROBE_LIMIT_S: Final = 0.25

LIMIT_S_MIN: Final = 0.05
"""No load is given up sooner: a hiccup of the machine is no verdict."""


@dataclass(frozen=True, slots=True)
class TierRun:
    """Blocks of a prefix that follow each other and lie in one tier."""

    tier: Tier
    blocks: int
    """At least one."""


class Verdict(enum.Enum):
    """What the gate found."""

    UNKNOWN = "unknown"
    """Too little is known; all is loaded."""

    ALL = "all"
    """All of it pays."""

    PART = "part"
    """Only a prefix pays."""

    NONE = "none"
    """To compute is faster."""

    PROBE = "probe"
    """More than pays, to see whether it still does not."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to load."""

    blocks: int
    """Leading blocks of what was asked about."""

    limit_s: float
    """When to give the load up, because to compute would have been faster; may be infinite."""

    verdict: Verdict
    load_s: float = 0.0
    """What loading these blocks is expected to take, as far as is known."""

    prefill_s: float = 0.0
    """What computing them is expected to take; 0 where that is not known."""


def decide(
    rates: LoadRates, source: Source, spec: NamespaceSpec, runs: Sequence[TierRun], now_s: float
) -> Decision:
    """
    Choose how many leading blocks to load.

    Args:
        rates: What is known; takes note of a probe as if it were made.
        source: Where the blocks are loaded from.
        spec: What a block is.
        runs: The blocks that could be loaded, in the order of the prompt.
        now_s: The time.
    """
    blocks = sum(run.blocks for run in runs)
    prefill_rate = rates.prefill_rate(spec.namespace_id)
    if prefill_rate is None:
        return Decision(blocks, math.inf, Verdict.UNKNOWN)
    block_s = spec.block_size / prefill_rate
    known = rates.source(source)
    if known is None:
        prefill_s = blocks * block_s
        return Decision(blocks, _limit_s(prefill_s), Verdict.UNKNOWN, prefill_s=prefill_s)
    best = _best_prefix(runs, block_s, spec.block_bytes, known)
    if best.blocks == blocks:
        return best.chosen(Verdict.ALL)
    refused = runs[best.runs]
    idle_s = known.idle_s(refused.tier, now_s)
    if idle_s is None or idle_s >= PROBE_AFTER_S:
        known.try_again(refused.tier, now_s)
        probed = best.blocks + min(refused.blocks, max(1, PROBE_BYTES // spec.block_bytes))
        limit_s = max(PROBE_LIMIT_S, probed * block_s)
        return Decision(probed, limit_s, Verdict.PROBE, best.load_s, probed * block_s)
    return best.chosen(Verdict.PART if best.blocks else Verdict.NONE)


def wait_limit_s(
    rates: LoadRates, address: str, spec: NamespaceSpec, blocks: int, now_s: float
) -> float:
    """
    Say how long to wait for the next of the blocks that arrive at a node.

    Args:
        rates: What is known of arrivals there, and of computing.
        address: The node.
        spec: What a block is.
        blocks: Blocks that are still to come.
        now_s: The time.

    Returns:
        What computing all of them would take, where a block arrives sooner than it is computed,
        or that is not known; 0 where it does not; infinity where nobody told how long computing
        takes.
    """
    prefill_rate = rates.prefill_rate(spec.namespace_id)
    if prefill_rate is None:
        return math.inf
    block_s = spec.block_size / prefill_rate
    rate = rates.arrival_rate(address, now_s, PROBE_AFTER_S)
    if rate is not None and spec.block_bytes / rate > block_s:
        return 0.0
    return _limit_s(blocks * block_s)


def runs_of_tiers(tiers: Iterable[Tier]) -> list[TierRun]:
    """Return the runs of blocks whose tiers are known one by one."""
    return [TierRun(tier, sum(1 for _ in group)) for tier, group in groupby(tiers)]


def runs_of_counts(matched: TierCounts, first_block: int, blocks: int) -> list[TierRun]:
    """
    Return the runs of a part of a prefix of which only the counts are known.

    Heads of prompts are shared and used more often than tails, and tails are demoted first: so
    the fast tiers are taken to come first.
    """
    runs, at, end = [], 0, first_block + blocks
    for tier in Tier:
        here = range(max(at, first_block), min(at + matched.of(tier), end))
        if here:
            runs.append(TierRun(tier, len(here)))
        at += matched.of(tier)
    return runs


@dataclass(frozen=True, slots=True)
class _Prefix:
    runs: int = 0
    blocks: int = 0
    load_s: float = 0.0
    prefill_s: float = 0.0

    @property
    def gain_s(self) -> float:
        return self.prefill_s - self.load_s

    def chosen(self, verdict: Verdict) -> Decision:
        limit_s = _limit_s(self.prefill_s)
        return Decision(self.blocks, limit_s, verdict, self.load_s, self.prefill_s)


def _best_prefix(
    runs: Sequence[TierRun], block_s: float, block_bytes: int, known: SourceRates
) -> _Prefix:
    """
    Return the prefix with the largest gain; of equals, the longest.

    Within a run the gain goes one way, so only the ends of runs need to be looked at.
    """
    rate_of = known.by_tier
    best = _Prefix()
    blocks, load_s = 0, known.latency_s
    for count, run in enumerate(runs, 1):
        blocks += run.blocks
        # What was never read is taken to cost nothing, so that it is read and known.
        load_s += run.blocks * block_bytes / rate_of.get(run.tier, math.inf)
        prefix = _Prefix(count, blocks, load_s, blocks * block_s)
        if prefix.gain_s >= best.gain_s:
            best = prefix
    return best


def _limit_s(prefill_s: float) -> float:
    return max(LIMIT_S_MIN, prefill_s)
