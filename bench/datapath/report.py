"""What one run of the bench found, and how it is written to JSON. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from bench.datapath.figures import RowFigures, Sample
from bench.datapath.goals import Goal, Outcome, outcomes


@dataclass(frozen=True, slots=True)
class Panel:
    """All rows of one server and one block size; they were measured in turns."""

    server: str  # key, see servers.py
    server_title: str
    block_bytes: int
    block_count: int
    rows: tuple[RowFigures, ...]
    samples: Mapping[str, Sequence[Sample]]  # by name of the row, in the order of the rounds
    unavailable: Mapping[str, str]  # why, by name of the row

    def outcomes(self, goals: Sequence[Goal]) -> list[Outcome]:
        """Hold the goals against these rows."""
        return list(
            outcomes(self.rows, server=self.server, block_bytes=self.block_bytes, goals=goals)
        )


def to_json(
    panels: Sequence[Panel], goals: Sequence[Goal], circumstances: Mapping[str, object]
) -> str:
    """
    Return the whole report.

    Args:
        panels: What was found.
        goals: What it is held against.
        circumstances: Machine, command and versions, written as they are.
    """
    report = {**circumstances, "panels": [_panel(panel, goals) for panel in panels]}
    return json.dumps(report, indent=2) + "\n"


def _panel(panel: Panel, goals: Sequence[Goal]) -> dict[str, object]:
    return {
        "server": panel.server,
        "server_title": panel.server_title,
        "block_bytes": panel.block_bytes,
        "block_count": panel.block_count,
        "rows": list(_rows(panel)),
        "unavailable": dict(panel.unavailable),
        "goals": [_outcome(outcome) for outcome in panel.outcomes(goals)],
    }


def _rows(panel: Panel) -> Iterator[dict[str, object]]:
    for row in panel.rows:
        yield {**asdict(row), "rounds": [asdict(sample) for sample in panel.samples[row.name]]}


def _outcome(outcome: Outcome) -> dict[str, object]:
    goal = outcome.goal
    return {
        "subject": goal.subject,
        "baselines": list(goal.baselines),
        "figure": goal.figure.value,
        "bound": goal.bound,
        "ratio": outcome.ratio,
        "is_met": outcome.is_met,
        "counts": outcome.counts,
    }
