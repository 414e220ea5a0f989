"""What is to be reached: a family's figure over that of baselines of the same run. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.datapath import names
from bench.datapath.figures import Figure, RowFigures, best_of
from bench.datapath.load import MIB

GOAL_BLOCK_BYTES = (MIB, 4 * MIB)
"""Block sizes for which goals count; at others the ratios are told all the same."""


@dataclass(frozen=True, slots=True)
class Goal:
    """
    A bound on a subject's figure over the mean of its baselines'.

    CPU is bounded from above, speed from below. What moves half of its bytes by each of two paths
    and costs no more than these has a ratio of 1 to both.
    """

    subject: str
    baselines: tuple[str, ...]
    figure: Figure
    bound: float
    servers: tuple[str, ...] = ()  # server keys for which it holds; none named: all


@dataclass(frozen=True, slots=True)
class Outcome:
    """A goal held against one run."""

    goal: Goal
    ratio: float | None  # None if a family was not measured
    counts: bool  # whether the goal is meant for this block size

    @property
    def is_met(self) -> bool | None:
        """None where there is no ratio."""
        if self.ratio is None:
            return None
        if self.goal.figure is Figure.CPU:
            return self.ratio <= self.goal.bound
        return self.ratio >= self.goal.bound


def outcomes(
    rows: Sequence[RowFigures], *, server: str, block_bytes: int, goals: Iterable[Goal]
) -> Iterator[Outcome]:
    """Hold the goals of one server against the rows of one block size."""
    for goal in goals:
        if not goal.servers or server in goal.servers:
            yield Outcome(goal, ratio(rows, goal), block_bytes in GOAL_BLOCK_BYTES)


def ratio(rows: Sequence[RowFigures], goal: Goal) -> float | None:
    """Return the subject's figure over the baselines'; None if one of them was not measured."""
    subject = best_of(rows, goal.subject, goal.figure)
    baselines = [best_of(rows, family, goal.figure) for family in goal.baselines]
    known = [value for value in baselines if value is not None]
    if subject is None or len(known) < len(baselines):
        return None
    return subject / fmean(known)


GOALS = (
    Goal(names.OURS_DRAM_READ, (names.RAW_READ,), Figure.CPU, 1.15, ("valkey",)),
    Goal(names.OURS_DRAM_READ, (names.RAW_READ,), Figure.CPU, 1.4, ("redis", "redis-kept")),
    Goal(names.OURS_DRAM_READ, (names.REDIS_PY_GET,), Figure.SPEED, 2.0),
    Goal(names.OURS_DRAM_READ, (names.LMCACHE_READ,), Figure.CPU, 1.0),
    Goal(names.OURS_DRAM_WRITE, (names.RAW_SET,), Figure.CPU, 1.2),
    Goal(names.OURS_DRAM_WRITE, (names.REDIS_PY_SET,), Figure.SPEED, 2.0),
    Goal(names.OURS_FILES, (names.PREADV_CHECKED,), Figure.CPU, 1.25),
    Goal(names.OURS_SSD_CACHED, (names.PREADV_CHECKED,), Figure.CPU, 1.25),
    Goal(names.OURS_FILES_DIRECT, (names.O_DIRECT,), Figure.SPEED, 0.85),
    Goal(names.OURS_SSD_DIRECT, (names.O_DIRECT,), Figure.SPEED, 0.85),
    Goal(names.OURS_MIXED, (names.OURS_DRAM_READ_CHECKED, names.OURS_SSD_CACHED), Figure.CPU, 1.0),
    Goal(names.OURS_GRPC_READ, (names.GRPC_READ,), Figure.CPU, 1.2),
)
