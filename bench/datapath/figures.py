"""From samples to figures: medians, and the best mode of a family. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

GB = 1e9


class Figure(Enum):
    """What is told about a row; the value is the unit."""

    CPU = "CPU s/GB"  # less is better
    SPEED = "GB/s"  # more is better


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one row. CPU seconds are user and system time."""

    moved_bytes: int
    elapsed_s: float
    bench_cpu_s: float  # of the bench's own process, where most clients run
    other_cpu_s: float  # of the servers, and of a client in a process of its own
    rss_growth_bytes: int  # peak within the round over what was resident before it

    @property
    def gb_per_s(self) -> float:
        """Speed."""
        return self.moved_bytes / GB / self.elapsed_s

    @property
    def cpu_s_per_gb(self) -> float:
        """Cost in all processes."""
        return (self.bench_cpu_s + self.other_cpu_s) / (self.moved_bytes / GB)


@dataclass(frozen=True, slots=True)
class RowFigures:
    """Medians over the rounds of one row."""

    name: str
    family: str
    group: str
    gb_per_s: float
    cpu_s_per_gb: float
    other_cpu_s_per_gb: float  # the part that is not the bench's own process
    rss_growth_bytes: int  # the worst round's

    def value(self, figure: Figure) -> float:
        """Return one of the two figures."""
        return self.cpu_s_per_gb if figure is Figure.CPU else self.gb_per_s


def row_figures(name: str, family: str, group: str, samples: Sequence[Sample]) -> RowFigures:
    """Return the medians of the samples of a row; there is at least one sample."""
    return RowFigures(
        name=name,
        family=family,
        group=group,
        gb_per_s=median(sample.gb_per_s for sample in samples),
        cpu_s_per_gb=median(sample.cpu_s_per_gb for sample in samples),
        other_cpu_s_per_gb=median(s.other_cpu_s / (s.moved_bytes / GB) for s in samples),
        rss_growth_bytes=max(sample.rss_growth_bytes for sample in samples),
    )


def best_of(rows: Iterable[RowFigures], family: str, figure: Figure) -> float | None:
    """Return the best value that a mode of the family has; None if no row is of that family."""
    values = [row.value(figure) for row in rows if row.family == family]
    if not values:
        return None
    return min(values) if figure is Figure.CPU else max(values)
