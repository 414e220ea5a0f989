"""Tests of hearthkv/demo/engine_events.py."""

import logging

import pytest

from hearthkv.core.tier import TierCounts
from hearthkv.demo.engine_events import (
    METRICS,
    BlocksSaved,
    HitRatio,
    ModelLoaded,
    RequestEnded,
    TurnServed,
)
from hearthkv.metrics import PrometheusMeters
from hearthkv.telemetry import Event, Telemetry


def emitted(*events: Event) -> PrometheusMeters:
    meters = PrometheusMeters(METRICS)
    for event in events:
        Telemetry(logging.getLogger("test"), meters).emit(event)
    return meters


def turn(prompt_tokens: int, hbm: int, dram: int, ssd: int) -> TurnServed:
    return TurnServed("s", prompt_tokens, hbm, dram, ssd, 0.3, 0.5, 0.5, "")


def test_the_hit_ratio_is_tokens_from_cache_by_prompt_tokens_of_all_requests():
    ratio = HitRatio()
    ratio.add(100, TierCounts())
    ratio.add(300, TierCounts(100, 60, 40))
    assert ratio.by_tier() == {"total": 0.5, "hbm": 0.25, "dram": 0.15, "ssd": 0.1}


def test_the_hit_ratio_is_0_before_the_first_request():
    assert HitRatio().by_tier() == {"total": 0, "hbm": 0, "dram": 0, "ssd": 0}


def test_turns_add_up():
    meters = emitted(turn(100, 0, 0, 0), turn(200, 96, 48, 16))
    assert meters.value("engine_prompt_tokens_total") == 300
    by_tier = [
        meters.value("engine_cached_tokens_total", tier=tier) for tier in ("hbm", "dram", "ssd")
    ]
    assert by_tier == [96, 48, 16]
    assert meters.value("engine_ttft_seconds_count") == 2
    assert meters.value("engine_ttft_seconds_sum") == pytest.approx(0.6)


def test_requests_are_counted_by_outcome():
    meters = emitted(RequestEnded("stop", 3), RequestEnded("stop"), RequestEnded("refused"))
    assert meters.value("engine_requests_total", outcome="stop") == 2
    assert meters.value("engine_requests_total", outcome="refused") == 1


def test_saved_blocks_are_counted_and_offered_ones_are_not():
    meters = emitted(BlocksSaved("s", 3, 7, 0.1), BlocksSaved("s", 2, 2, 0.1))
    assert meters.value("engine_saved_blocks_total") == 5


def test_a_loaded_model_shows_the_limit_of_the_pool():
    meters = emitted(ModelLoaded("m", "abc", 4096, 1 << 20, 1.5))
    assert meters.value("engine_hbm_limit_bytes") == 1 << 20
