"""How soon blocks are used again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachenode.eviction.reuse_odds import (
    STEPS,
    WIDTHS,
    ReuseOdds,
    hit_densities,
    start_of,
    step_of,
)


@given(st.integers(0, 2**40))
def test_an_age_is_in_the_step_that_starts_at_or_below_it(age):
    step = step_of(age)
    assert start_of(step) <= age
    assert step == STEPS - 1 or age < start_of(step + 1)


def test_before_any_lesson_the_younger_is_worth_more():
    odds = ReuseOdds(kind_count=2)
    densities = [odds.density(1, step) for step in range(STEPS)]
    assert densities == sorted(densities, reverse=True)


def test_a_hopeless_kind_is_worth_nothing_before_a_reuse_is_seen():
    odds = ReuseOdds(kind_count=2, hopeless={1})
    assert odds.density(0, 0) > odds.density(1, 0) == 0
    odds.began(1, 100)
    odds.reused(1, 100, 50)
    odds.learn()
    assert odds.density(1, 0) > 0


def test_a_kind_that_returns_is_worth_more_than_one_that_does_not():
    odds = ReuseOdds(kind_count=2)
    for kind in (0, 1):
        odds.began(kind, 100)
    odds.reused(0, 3000, 90)
    odds.learn()
    assert odds.density(0, 0) > odds.density(1, 0) > 0


def test_what_is_about_to_return_is_worth_more_than_what_was_just_used():
    odds = ReuseOdds(kind_count=1)
    odds.began(0, 100)
    odds.reused(0, 100_000, 90)
    odds.learn()
    assert odds.density(0, step_of(100_000)) > odds.density(0, step_of(50_000)) > odds.density(0, 0)


def test_a_withdrawn_beginning_does_not_count_as_never_used_again():
    odds, other = ReuseOdds(kind_count=1), ReuseOdds(kind_count=1)
    for each in (odds, other):
        each.began(0, 100)
        each.reused(0, 1000, 50)
    odds.withdrawn(0, 40)
    for each in (odds, other):
        each.learn()
    assert odds.density(0, 0) > other.density(0, 0)


def test_lessons_forget():
    odds = ReuseOdds(kind_count=1)
    odds.began(0, 100)
    odds.reused(0, 1000, 100)
    odds.learn()
    before = odds.density(0, 0)
    for _ in range(60):
        odds.began(0, 100)
        odds.learn()
    assert odds.density(0, 0) < before / 100


steps = st.lists(st.integers(0, 50), min_size=STEPS, max_size=STEPS)


@given(reused=steps, lost=st.integers(1, 500))
def test_the_density_is_the_best_quotient_of_hits_and_cost_to_any_later_age(reused, lost):
    begun = sum(reused) + lost
    left = [begun - sum(reused[:step]) for step in range(STEPS)]
    costs = [
        (waiting - hits / 2) * width
        for waiting, hits, width in zip(left, reused, WIDTHS, strict=True)
    ]
    for step, density in enumerate(hit_densities(reused, begun)):
        best = max(
            sum(reused[step : end + 1]) / sum(costs[step : end + 1]) for end in range(step, STEPS)
        )
        assert density == pytest.approx(best)


def test_where_nothing_is_left_there_is_nothing_to_hit():
    assert hit_densities([0.0] * STEPS, 0.0) == [0.0] * STEPS
