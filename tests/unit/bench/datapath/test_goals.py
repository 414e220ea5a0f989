"""Goals are held against ratios of one run."""

import pytest

from bench.datapath.figures import Figure
from bench.datapath.goals import GOALS, Goal, outcomes, ratio
from bench.datapath.load import MIB
from tests.unit.bench.datapath.panels import row

CHEAP = Goal("ours", ("floor",), Figure.CPU, 1.2)
FAST = Goal("ours", ("other",), Figure.SPEED, 2.0)


@pytest.mark.parametrize(
    ("goal", "rows", "is_met"),
    [
        pytest.param(CHEAP, [row("ours", 1.2), row("floor", 1.0)], True, id="at-the-bound"),
        pytest.param(CHEAP, [row("ours", 1.3), row("floor", 1.0)], False, id="too-dear"),
        pytest.param(FAST, [row("ours", 1, 4.0), row("other", 1, 2.0)], True, id="twice-as-fast"),
        pytest.param(
            FAST, [row("ours", 1, 3.9), row("other", 1, 2.0)], False, id="not-twice-as-fast"
        ),
        pytest.param(FAST, [row("ours", 1, 4.0)], None, id="no-baseline"),
        pytest.param(FAST, [row("other", 1, 4.0)], None, id="no-subject"),
    ],
)
def test_a_goal_is_met_missed_or_unknown(goal, rows, is_met):
    (outcome,) = outcomes(rows, server="redis", block_bytes=MIB, goals=[goal])
    assert outcome.is_met is is_met


def test_half_of_each_of_two_baselines_is_their_mean():
    goal = Goal("mixed", ("dram", "ssd"), Figure.CPU, 1.0)
    rows = [row("mixed", 0.4), row("dram", 0.5), row("ssd", 0.3)]
    assert ratio(rows, goal) == pytest.approx(1.0)


def test_the_best_mode_of_a_baseline_counts():
    rows = [row("ours", 1.0), row("floor", 2.0, mode=" slow"), row("floor", 1.0, mode=" fast")]
    assert ratio(rows, CHEAP) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("size", "counts"), [(64 * 1024, False), (MIB, True), (4 * MIB, True)], ids=str
)
def test_small_blocks_have_ratios_but_no_goals(size, counts):
    rows = [row("ours", 1.0), row("floor", 1.0)]
    (outcome,) = outcomes(rows, server="redis", block_bytes=size, goals=[CHEAP])
    assert (outcome.ratio, outcome.counts) == (1.0, counts)


def test_a_goal_of_one_server_is_no_goal_of_another():
    goal = Goal("ours", ("floor",), Figure.CPU, 1.15, ("valkey",))
    assert list(outcomes([], server="redis", block_bytes=MIB, goals=[goal])) == []
    assert len(list(outcomes([], server="valkey", block_bytes=MIB, goals=[goal]))) == 1


def test_no_goal_has_itself_as_its_baseline():
    assert [goal for goal in GOALS if goal.subject in goal.baselines] == []
