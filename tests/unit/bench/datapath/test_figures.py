"""Samples become medians, and the best mode of a family counts."""

import pytest

from bench.datapath.figures import Figure, best_of, row_figures
from tests.unit.bench.datapath.panels import row, sample


def test_a_sample_counts_the_cpu_of_all_processes():
    one = sample(0.8, 2.0)
    assert one.cpu_s_per_gb == pytest.approx(0.8)
    assert one.gb_per_s == pytest.approx(2.0)


def test_figures_are_medians_and_one_bad_round_does_not_move_them():
    figures = row_figures("a", "a", "memory", [sample(1.0), sample(9.0, 0.1), sample(1.2)])
    assert figures.cpu_s_per_gb == pytest.approx(1.2)
    assert figures.gb_per_s == pytest.approx(1.0)
    assert figures.other_cpu_s_per_gb == pytest.approx(0.9)


def test_the_growth_of_memory_is_the_worst_rounds():
    samples = [sample(1.0, growth=5), sample(1.0, growth=70), sample(1.0)]
    assert row_figures("a", "a", "memory", samples).rss_growth_bytes == 70


def test_the_best_mode_is_the_cheapest_or_the_fastest():
    rows = [row("get", 1.0, 2.0, mode=" a"), row("get", 2.0, 3.0, mode=" b"), row("set", 0.1, 9.0)]
    assert best_of(rows, "get", Figure.CPU) == pytest.approx(1.0)
    assert best_of(rows, "get", Figure.SPEED) == pytest.approx(3.0)


def test_a_family_that_was_not_measured_has_no_best():
    assert best_of([row("get", 1.0)], "set", Figure.CPU) is None
