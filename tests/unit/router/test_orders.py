"""router/orders.py: what the node of a turn is told to fetch."""

from hearthkv.core.block_key import PackedKeys, SampledKeys
from hearthkv.core.routing import (
    CacheHint,
    NodeEndpoint,
    PlacementReason,
    PullOrder,
    PullSource,
    Route,
    RouteQuery,
)
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import TierCounts
from router.orders import pull_order

NS = b"n" * 16
KEYS = PackedKeys(b"".join(index.to_bytes(16) for index in range(100)))
A, B, C = (NodeEndpoint(NodeId(name), f"{name}:7500") for name in "abc")


def query(samples: SampledKeys) -> RouteQuery:
    return RouteQuery(SessionId("s"), NS, samples, CacheHint.REUSE, 1600, 16)


def route(matched: int, *pull_from: PullSource) -> Route:
    return Route(A, TierCounts(dram=matched), A.node_id, PlacementReason.SPILL, pull_from)


def test_the_first_source_is_named_with_the_block_that_it_holds_last():
    placed = route(10, PullSource(B, 80), PullSource(C, 60))
    assert pull_order(query(SampledKeys.all_of(KEYS)), placed) == PullOrder(
        NS, KEYS[79], 80, "b:7500", SessionId("s")
    )


def test_without_a_source_nothing_is_fetched():
    assert pull_order(query(SampledKeys.all_of(KEYS)), route(10)) is None


def test_of_some_keys_the_last_one_that_the_source_holds_counts():
    samples = SampledKeys(PackedKeys.join([KEYS[31], KEYS[63], KEYS[99]]), (32, 64, 100))
    order = pull_order(query(samples), route(10, PullSource(B, 80)))
    assert order == PullOrder(NS, KEYS[63], 64, "b:7500", SessionId("s"))
    assert pull_order(query(samples), route(64, PullSource(B, 80))) is None
    assert pull_order(query(samples), route(0, PullSource(B, 31))) is None
