"""What the replay compares: policies, with what clients tell them, and the optimum."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.replay.cache import ReplayedCache, hit_percent, play
from bench.replay.optimum import optimum_hits
from bench.replay.prefix_runs import PrefixRuns, cut
from bench.replay.traces import Trace
from bench.replay.turn_ends import TurnEnds, final_ends, guessed_ends, no_ends
from cachenode.eviction.registry import new_policy

CAPACITY_PERCENTS = (1, 5, 10, 25, 50)


@dataclass(frozen=True, slots=True)
class Contender:
    """A row of the table."""

    name: str
    hits: Callable[[Trace, PrefixRuns, int], list[int]]
    needs_threads: bool = False  # no other than one without, where a trace does not name threads


@dataclass(frozen=True, slots=True)
class Score:
    """Token hit percent of one contender on one trace, by `CAPACITY_PERCENTS`."""

    trace: str
    contender: str
    hit_percents: tuple[float, ...]


def _policy_hits(
    policy: str,
    ends: Callable[[Trace], TurnEnds],
    trace: Trace,
    runs: PrefixRuns,
    capacity_blocks: int,
) -> list[int]:
    ranked = new_policy(policy, lambda run: run, runs.block_counts.__getitem__)
    return play(trace, runs, ReplayedCache(runs, ranked, capacity_blocks), ends(trace))


def _optimum(_: Trace, runs: PrefixRuns, capacity_blocks: int) -> list[int]:
    return optimum_hits(runs, capacity_blocks)


# In one tier `lru` and `lru_with_media_priority` are the same.
CONTENDERS = (
    Contender("lru", partial(_policy_hits, "lru", no_ends)),
    Contender("s3fifo", partial(_policy_hits, "s3fifo", no_ends)),
    Contender("hit_density", partial(_policy_hits, "hit_density", no_ends)),
    Contender("hit_density, ends", partial(_policy_hits, "hit_density", final_ends), True),
    Contender(
        "hit_density, ends + kinds", partial(_policy_hits, "hit_density", guessed_ends), True
    ),
    Contender("optimum", _optimum),
)


def score(trace: Trace, contender: Contender) -> Score:
    """Play a contender at all capacities."""
    runs = cut(trace)
    return Score(
        trace.name,
        contender.name,
        tuple(
            hit_percent(trace, contender.hits(trace, runs, runs.footprint_blocks * percent // 100))
            for percent in CAPACITY_PERCENTS
        ),
    )


def contenders_on(trace: Trace) -> list[Contender]:
    """The contenders that differ on a trace."""
    has_threads = any(request.thread for request in trace.requests)
    return [each for each in CONTENDERS if has_threads or not each.needs_threads]
