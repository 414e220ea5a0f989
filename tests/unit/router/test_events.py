"""router/events.py: every event moves declared metrics, and nothing else."""

import pytest

from hearthkv.core.routing import NodeState, PlacementReason
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import TierCounts
from hearthkv.metrics import PrometheusMeters
from hearthkv.telemetry import render
from router import events
from router.feed_alarms import FeedTrouble

NODE = NodeId("a")
PLACEMENT = events.PlacementMade(
    session_id=SessionId("my session"),
    node_id=NODE,
    home_node_id=NodeId("b"),
    reason=PlacementReason.PREFIX,
    prompt_tokens=1600,
    matched_tokens=TierCounts(dram=800, ssd=16),
    hit_ratios={"total": 0.51, "hbm": 0.0, "dram": 0.5, "ssd": 0.01},
)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            PLACEMENT,
            {
                ("router_placements_total", "reason", "prefix"): 1,
                ("router_prompt_tokens_total",): 1600,
                ("router_matched_tokens_total", "tier", "dram"): 800,
                ("router_matched_tokens_total", "tier", "ssd"): 16,
                ("router_matched_tokens_total", "tier", "hbm"): 0,
                ("router_cache_hit_ratio", "tier", "total"): 0.51,
                ("router_cache_hit_ratio", "tier", "dram"): 0.5,
            },
        ),
        (
            events.CallRefused("Route", "BAD_KEYS", "key_width is 0"),
            {("router_refusals_total", "reason", "BAD_KEYS"): 1},
        ),
        (
            events.PrefetchOrdered(NODE, is_sent=True),
            {("router_prefetches_total", "outcome", "sent"): 1},
        ),
        (
            events.PrefetchOrdered(NODE, is_sent=False),
            {("router_prefetches_total", "outcome", "dropped"): 1},
        ),
        (
            events.PullOrdered(NODE, "b:1", 40, events.PullCause.HOT, is_sent=True),
            {
                ("router_pulls_total", "cause", "hot", "outcome", "sent"): 1,
                ("router_pulled_blocks_total", "cause", "hot"): 40,
            },
        ),
        (
            events.PullOrdered(NODE, "b:1", 40, events.PullCause.TURN, is_sent=False),
            {
                ("router_pulls_total", "cause", "turn", "outcome", "dropped"): 1,
                ("router_pulled_blocks_total", "cause", "turn"): 0,
            },
        ),
        (events.NodeResynced(NODE, 2, 3), {("router_resyncs_total",): 1}),
        (
            events.ClusterMeasured(
                {NodeState.LIVE: 2, NodeState.SUSPECT: 1},
                index_keys=7,
                sessions=3,
                hot_prefixes=2,
                feed_alarms={FeedTrouble.MUTE: 1},
                index_lag_s=12.5,
            ),
            {
                ("router_nodes", "state", "live"): 2,
                ("router_nodes", "state", "suspect"): 1,
                ("router_index_keys",): 7,
                ("router_sessions",): 3,
                ("router_hot_prefixes",): 2,
                ("router_feed_alarms", "trouble", "mute"): 1,
                ("router_index_lag_seconds",): 12.5,
            },
        ),
        (events.NodeJoined(NODE, "a:1", 1, is_new=True), {}),
        (events.NodeSuspected(NODE, 2.6), {}),
        (events.NodeRecovered(NODE), {}),
        (events.DrainBegun(NODE), {}),
        (events.DrainEnded(NODE), {}),
        (events.NodeRemoved(NODE, 10.5), {}),
        (events.FeedAlarmed(NODE, FeedTrouble.SHORT, 1000, 10), {}),
        (events.FeedHealed(NODE), {}),
        (events.StreamOverflowed(256), {}),
        (events.RouterStarted("a:1", "-"), {}),
        (events.RouterStopped("a:1"), {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_event_moves_its_metrics(event, expected):
    meters = PrometheusMeters(events.METRICS)
    event.count(meters)
    found = {
        name: meters.value(name[0], **dict(zip(name[1::2], name[2::2], strict=True)))
        for name in expected
    }
    assert found == expected


def test_a_placement_is_one_line_of_words():
    assert render(PLACEMENT) == (
        "PlacementMade session_id='my session' node_id=a home_node_id=b reason=prefix "
        "prompt_tokens=1600 matched_tokens=hbm:0,dram:800,ssd:16 "
        "hit_ratios=total:0.51,hbm:0,dram:0.5,ssd:0.01"
    )
