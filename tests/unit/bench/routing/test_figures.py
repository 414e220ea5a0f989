"""bench/routing/figures.py: samples, goals and the report."""

import json

import pytest

from bench.routing.figures import CallTimes, Index, PeerRow, to_json
from tests.unit.bench.routing.panels import row


def test_samples_are_summed_up_in_microseconds():
    times = CallTimes.of([0.001 * number for number in range(1, 102)], per_s=7.0)
    assert times.p50_us == pytest.approx(51_000)
    assert times.p99_us == pytest.approx(100_980)
    assert times.per_s == 7.0


@pytest.mark.parametrize(("route_us", "is_fast"), [(325.0, True), (326.0, False)])
def test_a_call_is_fast_if_it_takes_at_most_a_third_more_than_an_empty_one(route_us, is_fast):
    assert row(route_us=route_us).is_call_fast is is_fast


@pytest.mark.parametrize(
    ("nodes", "new_us", "is_fast"), [(64, 50.0, True), (64, 51.0, False), (4, 45.0, None)]
)
def test_a_decision_has_a_goal_at_64_nodes(nodes, new_us, is_fast):
    assert row(nodes=nodes, new_us=new_us).is_decision_fast is is_fast


def test_the_report_has_everything():
    report = json.loads(
        to_json(
            [row()],
            [Index(64, 1000, 36_000)],
            [PeerRow("other", 1_000, 5.0, 9.0)],
            {"command": "python -m bench.routing"},
        )
    )
    assert report["command"] == "python -m bench.routing"
    assert report["rows"][0]["ratio"] == 1.2
    assert report["rows"][0]["calls"]["route"]["p50_us"] == 300.0
    assert report["indexes"][0]["bytes_per_key"] == 36.0
    assert report["peers"][0]["name"] == "other"
