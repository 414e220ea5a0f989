"""The tables show every row once, and say what is missing."""

from rich.console import Console
from rich.table import Table

from bench.datapath import table
from bench.datapath.figures import Figure
from bench.datapath.goals import Goal
from bench.datapath.load import MIB
from tests.unit.bench.datapath.panels import panel, row

GOAL = Goal("ours", ("floor",), Figure.CPU, 1.2)


def lines(shown: Table) -> list[str]:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(shown)
    return [line.rstrip() for line in capture.get().splitlines() if line.strip()]


def test_a_row_has_a_pair_of_figures_for_each_block_size():
    panels = [panel(row("get", 0.5, 3.0), block_bytes=MIB), panel(row("get", 0.75, 2.0))]
    assert lines(table.figures_table(panels))[-1].split() == ["get", "0.50", "3.00", "0.75", "2.00"]


def test_a_row_that_is_missing_at_one_size_has_dashes_there():
    panels = [panel(row("get", 0.5, 3.0)), panel(row("set", 0.75, 2.0))]
    shown = lines(table.figures_table(panels))
    assert [line.split() for line in shown[-2:]] == [
        ["get", "0.50", "3.00", "-", "-"],
        ["set", "-", "-", "0.75", "2.00"],
    ]


def test_the_growth_of_memory_is_told_in_mib():
    assert lines(table.growth_table([panel(row("get", 0.5)), panel()]))[-1].split() == [
        "get",
        "0.0",
        "-",
    ]


def test_a_ratio_has_a_verdict_where_the_goal_counts():
    met, missed = panel(row("ours", 1, 1), row("floor", 1)), panel(row("ours", 2), row("floor", 1))
    small = panel(row("ours", 2), row("floor", 1), block_bytes=64 * 1024)
    (line,) = lines(table.goals_table([small, met, missed, panel()], [GOAL]))[-1:]
    assert line.split()[-6:] == ["2.00", "1.00", "met", "2.00", "MISSED", "-"]


def test_a_goal_without_figures_has_no_line():
    assert table.goals_table([panel(row("floor", 1))], [GOAL]).row_count == 0


def test_what_is_not_here_is_said_once():
    why = {"peer": "not installed"}
    panels = [panel(unavailable=why), panel(unavailable=why)]
    assert table.absences(panels) == ["not here: peer: not installed"]


def test_sizes_are_written_as_people_do():
    assert [table.size_text(size) for size in (65536, 376832, MIB, 4 * MIB)] == [
        "64 KiB",
        "368 KiB",
        "1 MiB",
        "4 MiB",
    ]
