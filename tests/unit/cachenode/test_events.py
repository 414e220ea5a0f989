"""Tests of `cachenode.events`."""

import dataclasses
import inspect
import logging
from collections.abc import Mapping

import pytest

from cachenode import events
from hearthkv.core.block_io import WriteStatus
from hearthkv.core.tier import Tier, TierUsage
from hearthkv.metrics import PrometheusMeters
from hearthkv.telemetry import NoMeters, Telemetry

EVENTS = [
    kind
    for _, kind in inspect.getmembers(events, inspect.isclass)
    if kind.__module__ == events.__name__ and hasattr(kind, "LEVEL")
]


@pytest.fixture
def meters() -> PrometheusMeters:
    return PrometheusMeters(events.METRICS)


def example(kind: type):
    """An event of a kind, with some value in each field."""
    values = {
        int: 3,
        float: 0.5,
        str: "x",
        Tier: Tier.DRAM,
        WriteStatus: WriteStatus.STORED,
        events.ReservationEnd: events.ReservationEnd.EXPIRED,
        Mapping[str, int]: {"dram": 3},
        Mapping[str, float]: {"dram": 0.5},
    }
    return kind(**{field.name: values[field.type] for field in dataclasses.fields(kind)})


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_every_event_moves_declared_metrics_only(kind: type, meters: PrometheusMeters):
    telemetry = Telemetry(logging.getLogger("test"), meters)
    telemetry.emit(example(kind))
    Telemetry(logging.getLogger("test"), NoMeters()).emit(example(kind))


def test_lost_blocks_are_counted_by_cause(meters: PrometheusMeters):
    events.BlockLost(Tier.SSD, "k", "gone", 4).count(meters)
    events.TierForgotten(Tier.DRAM, 9).count(meters)
    assert meters.value("cachenode_lost_blocks_total", cause="bad_bytes") == 4
    assert meters.value("cachenode_lost_blocks_total", cause="store_replaced") == 9


def test_written_bytes_are_those_of_stored_blocks(meters: PrometheusMeters):
    events.BlockWritten(WriteStatus.STORED, 100).count(meters)
    events.BlockWritten(WriteStatus.NO_ROOM, 100).count(meters)
    assert meters.value("cachenode_written_bytes_total") == 100
    assert meters.value("cachenode_writes_total", status="no_room") == 1


def test_moves_are_counted_by_direction(meters: PrometheusMeters):
    events.BlocksMoved(Tier.DRAM, Tier.SSD, 1, 100).count(meters)
    events.BlocksMoved(Tier.SSD, Tier.DRAM, 1, 200).count(meters)
    events.BlocksMoved(Tier.SSD, Tier.DRAM, 1, 100).count(meters)
    assert meters.value("cachenode_demoted_blocks_total") == 1
    assert meters.value("cachenode_promoted_blocks_total") == 2
    assert meters.value("cachenode_moved_bytes_total", source="dram", target="ssd") == 100
    assert meters.value("cachenode_moved_bytes_total", source="ssd", target="dram") == 300


def test_write_amplification_is_what_was_moved_of_what_was_written(meters: PrometheusMeters):
    events.show_write_amplification(meters, 30, 0)
    assert meters.value("cachenode_write_amplification") == 0
    events.show_write_amplification(meters, 30, 20)
    assert meters.value("cachenode_write_amplification") == 1.5


def test_the_gauges_tell_bytes_and_health(meters: PrometheusMeters):
    events.show_usage(
        meters,
        (TierUsage(Tier.DRAM, 10, 5, 100, 2), TierUsage(Tier.SSD, 0, 0, 50, 0, "is away")),
    )
    assert meters.value("cachenode_tier_used_bytes", tier="dram") == 10
    assert meters.value("cachenode_tier_reserved_bytes", tier="dram") == 5
    assert meters.value("cachenode_tier_limit_bytes", tier="ssd") == 50
    assert meters.value("cachenode_tier_healthy", tier="dram") == 1
    assert meters.value("cachenode_tier_healthy", tier="ssd") == 0


def test_the_hit_ratio_in_total_is_the_sum_of_the_tiers(meters: PrometheusMeters):
    events.show_hit_ratio(meters, {Tier.DRAM: 0.5, Tier.SSD: 0.25})
    assert meters.value("cachenode_cache_hit_ratio", tier="total") == 0.75
