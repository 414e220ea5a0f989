"""A demo that does not show what it promises is found out."""

from dataclasses import replace

import pytest

from hearthkv.core.tier import TierCounts
from hearthkv.demo.turn_record import DemoResult, SessionResult
from hearthkv.demo.verdict import faults
from tests.unit.hearthkv.demo.conftest import turn


def test_a_good_demo_has_no_faults(good_result: DemoResult):
    assert faults(good_result) == []


def test_another_answer_with_the_cache_is_a_fault(good_result: DemoResult):
    first, second, third = good_result.with_cache
    result = replace(good_result, with_cache=(first, replace(second, text="else"), third))
    assert faults(result) == [
        "round 2 answers 'else' with the cache and 'answer 2' without it; they must be the same"
    ]


def test_a_pass_without_the_cache_takes_nothing_from_it(good_result: DemoResult):
    first, *rest = good_result.without_cache
    result = replace(good_result, without_cache=(replace(first, cached=TierCounts(dram=16)), *rest))
    (fault,) = faults(result)
    assert fault.startswith("round 1 took 16 tokens from the cache")


@pytest.mark.parametrize(("cached", "is_good"), [(2125, True), (2124, False)])
def test_the_later_hit_ratio_has_a_floor(good_result: DemoResult, cached: int, is_good: bool):
    first, second, third = good_result.with_cache
    second = replace(second, cached=TierCounts(hbm=1000))
    third = replace(third, cached=TierCounts(hbm=cached - 1000))
    found = faults(replace(good_result, with_cache=(first, second, third)))
    assert (found == []) is is_good
    assert is_good or found == ["cache_hit_ratio from round 2 on is 0.850, must be at least 0.85"]


def test_a_cold_turn_after_the_restart_is_a_fault(good_result: DemoResult):
    result = replace(good_result, after_restart=turn(4, TierCounts()))
    assert faults(result) == [
        "cache_hit_ratio after the engine's restart is 0.000, must be at least 0.85"
    ]


def test_a_new_process_can_have_nothing_in_hbm(good_result: DemoResult):
    result = replace(good_result, after_restart=turn(4, TierCounts(hbm=1392)))
    (fault,) = faults(result)
    assert fault.startswith("after the engine's restart 1392 tokens came from HBM")


def test_a_failure_without_failover_is_a_fault(good_result: DemoResult):
    result = replace(good_result, after_failure=turn(5, TierCounts()))
    assert faults(result) == [
        "after the node's failure the reason is 'session', must be 'failover'"
    ]


def test_a_session_that_stays_cold_after_the_failover_is_a_fault(good_result: DemoResult):
    result = replace(good_result, warm_again=turn(6, TierCounts()))
    (fault,) = faults(result)
    assert fault.startswith("cache_hit_ratio after the failover is 0.000")


def test_a_cluster_that_is_left_alone_has_the_session_to_show(guest_result: SessionResult):
    assert faults(guest_result) == []
    cold = tuple(replace(turn, cached=TierCounts()) for turn in guest_result.with_cache)
    (fault,) = faults(replace(guest_result, with_cache=cold))
    assert fault.startswith("cache_hit_ratio from round 2 on is 0.000")
