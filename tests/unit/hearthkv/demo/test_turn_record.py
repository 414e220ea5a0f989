"""The figures of a demo follow from its turns."""

import json

import pytest

from hearthkv.demo.turn_record import DemoResult, SessionResult, hit_ratio


def test_the_hit_ratio_is_tokens_from_cache_by_prompt_tokens(good_result: DemoResult):
    assert good_result.with_cache[1].hit_ratio == pytest.approx(1104 / 1200)
    assert hit_ratio(good_result.with_cache) == pytest.approx((1104 + 1200) / (1100 + 1200 + 1300))


def test_the_first_round_does_not_count_for_the_later_hit_ratio(good_result: DemoResult):
    assert good_result.later_hit_ratio == pytest.approx((1104 + 1200) / (1200 + 1300))


def test_speedups_go_round_by_round(good_result: DemoResult):
    assert good_result.speedups == (1.0, 16.0, 24.0)


def test_everything_can_be_written_as_json(good_result: DemoResult):
    table = json.loads(json.dumps(good_result.as_json()))
    assert table["with_cache"][2]["cached"] == {"hbm": 600, "dram": 400, "ssd": 200}
    assert table["with_cache"][2]["cached_tokens"] == 1200
    assert table["after_failure"]["reason"] == "failover"
    assert [name for name, _ in good_result.extra] == [
        "engine restarted",
        "node killed",
        "nothing more",
    ]


def test_a_session_without_misfortunes_is_written_without_them(guest_result: SessionResult):
    assert guest_result.extra == ()
    assert guest_result.as_json().keys() == {
        *("hit_ratio_from_round_2", "speedups", "without_cache", "with_cache")
    }
