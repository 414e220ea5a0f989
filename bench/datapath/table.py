"""The tables for a person: a server's rows over block sizes, and the goals over them. Pure."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.table import Table

from bench.datapath.figures import Figure, RowFigures
from bench.datapath.goals import Goal, Outcome
from bench.datapath.load import MIB
from bench.datapath.report import Panel

NOT_MEASURED = "-"


def figures_table(panels: Sequence[Panel]) -> Table:
    """
    Return the rows of one server, with a pair of columns for each block size.

    Args:
        panels: Of one server, one a block size; at least one.
    """
    table = _table()
    for panel in panels:
        table.add_column(f"{size_text(panel.block_bytes)}\nCPU", justify="right")
        table.add_column("\nGB/s", justify="right")
    for group, names in _groups(panels):
        table.add_row(f"[bold]{group}[/bold]")
        for name in names:
            rows = [_row(panel, name) for panel in panels]
            table.add_row(f"  {name}", *(cell for row in rows for cell in _figures(row)))
    return table


def growth_table(panels: Sequence[Panel]) -> Table:
    """Return by how many MiB resident memory grew within a round, client and server together."""
    table = _table()
    for panel in panels:
        table.add_column(size_text(panel.block_bytes), justify="right")
    for group, names in _groups(panels):
        table.add_row(f"[bold]{group}[/bold]")
        for name in names:
            table.add_row(f"  {name}", *(_growth(_row(panel, name)) for panel in panels))
    return table


def goals_table(panels: Sequence[Panel], goals: Sequence[Goal]) -> Table:
    """Return ratio and verdict for each goal whose rows were measured."""
    table = _table()
    table.add_column("over")
    table.add_column("of")
    table.add_column("goal", justify="right")
    for panel in panels:
        table.add_column(size_text(panel.block_bytes), justify="right")
    by_goal = zip(*(panel.outcomes(goals) for panel in panels), strict=True)
    for row in by_goal:
        if any(outcome.ratio is not None for outcome in row):
            goal = row[0].goal
            bound = f"{'<=' if goal.figure is Figure.CPU else '>='} {goal.bound:g}"
            cells = (_verdict(outcome) for outcome in row)
            unit = goal.figure.value
            table.add_row(goal.subject, " and ".join(goal.baselines), unit, bound, *cells)
    return table


def absences(panels: Sequence[Panel]) -> list[str]:
    """Return a line for each row that is missing somewhere, and why."""
    found = [(name, why) for panel in panels for name, why in panel.unavailable.items()]
    return [f"not here: {name}: {why}" for name, why in dict.fromkeys(found)]


def size_text(size_bytes: int) -> str:
    """Return a size as people write it."""
    return f"{size_bytes // MIB} MiB" if size_bytes % MIB == 0 else f"{size_bytes // 1024} KiB"


def _table() -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    return table


def _groups(panels: Sequence[Panel]) -> Iterator[tuple[str, list[str]]]:
    rows = {row.name: row.group for panel in panels for row in panel.rows}
    for group in dict.fromkeys(rows.values()):
        yield group, [name for name, own in rows.items() if own == group]


def _row(panel: Panel, name: str) -> RowFigures | None:
    return next((row for row in panel.rows if row.name == name), None)


def _figures(row: RowFigures | None) -> tuple[str, str]:
    if row is None:
        return NOT_MEASURED, NOT_MEASURED
    return f"{row.cpu_s_per_gb:.2f}", f"{row.gb_per_s:.2f}"


def _growth(row: RowFigures | None) -> str:
    return NOT_MEASURED if row is None else f"{row.rss_growth_bytes / MIB:.1f}"


def _verdict(outcome: Outcome) -> str:
    if outcome.ratio is None:
        return NOT_MEASURED
    if not outcome.counts:
        return f"{outcome.ratio:.2f}"
    return f"{outcome.ratio:.2f} {'met' if outcome.is_met else 'MISSED'}"
