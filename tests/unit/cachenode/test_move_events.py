"""Tests of `cachenode.move_events`."""

import pytest

from cachenode.move_events import (
    MOVE_METRICS,
    DrainBegun,
    DrainCancelled,
    DrainEnded,
    PullEnded,
    SessionHandedOver,
    show_draining,
    show_pulls,
    show_uncached,
)
from hearthkv.core.pulls import PullEnd
from hearthkv.metrics import PrometheusMeters
from hearthkv.telemetry import render


@pytest.mark.parametrize(
    ("end", "outcome"), [(PullEnd.NO_ROOM, "no_room"), (None, "given_up")], ids=["ended", "left"]
)
def test_pulls_are_counted_by_their_end(end: PullEnd | None, outcome: str):
    meters = PrometheusMeters(MOVE_METRICS)
    PullEnded("b:1", end, 3, 3000).count(meters)
    assert meters.value("cachenode_pulls_total", outcome=outcome) == 1
    assert meters.value("cachenode_pulled_blocks_total") == 3
    assert meters.value("cachenode_pulled_bytes_total") == 3000


def test_hand_overs_are_counted_by_their_end():
    meters = PrometheusMeters(MOVE_METRICS)
    SessionHandedOver("b", PullEnd.BUSY, 7).count(meters)
    assert meters.value("cachenode_handoffs_total", outcome="busy") == 1


def test_gauges_show_the_moment():
    meters = PrometheusMeters(MOVE_METRICS)
    show_pulls(meters, 2)
    show_draining(meters, is_draining=True)
    show_uncached(meters, 640)
    assert meters.value("cachenode_pulls_in_flight") == 2
    assert meters.value("cachenode_draining") == 1
    assert meters.value("cachenode_uncached_tokens") == 640


def test_a_drain_is_told_in_the_log_alone():
    meters = PrometheusMeters(MOVE_METRICS)
    for event in (DrainBegun(3), DrainCancelled(), DrainEnded(0, 2)):
        event.count(meters)
    assert render(DrainEnded(0, 2)) == "DrainEnded sessions_left=0 peers=2"
