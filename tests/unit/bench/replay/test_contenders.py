"""What the replay compares."""

from dataclasses import replace

from bench.replay.contenders import CAPACITY_PERCENTS, CONTENDERS, contenders_on, score
from bench.replay.report import STYLES
from tests.unit.bench.replay.replay_kit import random_trace


def test_more_room_is_never_worse_for_the_optimum_which_nobody_beats():
    scores = {each.name: score(random_trace(5), each).hit_percents for each in CONTENDERS}
    best = scores["optimum"]
    assert list(best) == sorted(best)
    assert len(best) == len(CAPACITY_PERCENTS)
    for hit_percents in scores.values():
        assert all(mine <= most for mine, most in zip(hit_percents, best, strict=True))


def test_turn_ends_are_only_told_of_where_threads_have_names():
    trace = random_trace(5)
    assert len(contenders_on(trace)) < len(CONTENDERS)
    named = replace(trace, requests=tuple(replace(each, thread="a") for each in trace.requests))
    assert contenders_on(named) == list(CONTENDERS)


def test_every_contender_has_a_line_of_its_own():
    assert [each.name for each in CONTENDERS] == list(STYLES)
