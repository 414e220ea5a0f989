"""router/hot_prefixes.py: what many sessions share is copied, within bounds, and forgotten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.block_key import PackedKeys, SampledKeys
from hearthkv.core.routing import NodeEndpoint, PullOrder
from hearthkv.core.session_id import NodeId
from router.hot_prefixes import (
    BURST_S,
    HALF_LIFE_S,
    NODES_MAX,
    ORDERS_MAX,
    PREFIXES_MAX,
    REPEAT_S,
    HotPolicy,
    HotPrefixes,
)

NS = b"n" * 16
A, B, C, D = (NodeId(name) for name in "abcd")
NODES = [NodeEndpoint(node_id, f"{node_id}:7500") for node_id in (A, B, C, D)]
NAMES = {node.node_id for node in NODES}
SHARED = [bytes([1, index]) * 8 for index in range(24)]


def prompt(own: int, shared: int = 24, blocks: int = 40) -> SampledKeys:
    """A prompt that begins as all do and goes on in its own way."""
    tail = [own.to_bytes(8) + index.to_bytes(8) for index in range(shared, blocks)]
    return SampledKeys.all_of(PackedKeys.join([*SHARED[:shared], *tail]))


def held_by(*node_ids: NodeId):
    """Nodes that hold whatever is shared."""
    return lambda _, key: set(node_ids) if key in SHARED else set()


def new(**policy: float) -> HotPrefixes:
    return HotPrefixes(HotPolicy(**({"sessions_min": 3} | policy)))  # type: ignore[arg-type]


def serve(hot: HotPrefixes, *node_ids: NodeId) -> HotPrefixes:
    """One new session on each of the nodes."""
    for own, node_id in enumerate(node_ids):
        hot.note_session(NS, prompt(own), node_id)
    return hot


def due(hot: HotPrefixes, *holding: NodeId, now: float = 0.0, targets=NAMES):
    return hot.due(NODES, targets, held_by(*holding), now)


def order(source: str, blocks: int = 24) -> PullOrder:
    return PullOrder(NS, SHARED[blocks - 1], blocks, f"{source}:7500")


def test_a_node_that_serves_what_many_share_fetches_the_deepest_of_it():
    hot = serve(new(), A, A, B)
    assert hot.hot_count == 6  # at 4, 6, 8, 12, 16 and 24 blocks
    assert due(hot, A) == [(B, order("a"))]
    assert due(hot, A, now=REPEAT_S - 1) == []


def test_few_sessions_are_not_many():
    assert due(serve(new(sessions_min=4), A, A, B), A) == []


def test_what_a_node_holds_it_need_not_fetch_and_what_nobody_holds_it_cannot():
    assert due(serve(new(), A, A, B), A, B) == []
    assert due(serve(new(), A, A, B)) == []


def test_a_node_that_gets_no_new_sessions_is_told_nothing_but_may_be_a_source():
    hot = serve(new(), A, B, C)
    assert due(hot, A, targets={B}) == [(B, order("a"))]


def test_no_more_nodes_are_told_than_may_hold_it():
    hot = serve(new(replicas_max=3), A, B, C, D, D)
    assert due(hot, A) == [(D, order("a")), (B, order("a"))]
    assert due(hot, A, now=1.0) == []


def test_sources_take_turns():
    hot = serve(new(), A, B, C, D)
    assert due(hot, A, B) == [(C, order("a")), (D, order("b"))]


def test_what_a_turn_has_just_moved_is_not_ordered():
    hot = serve(new(), A, A, B)
    hot.note_pull(NS, prompt(7), B, 0.0)
    assert due(hot, A, now=REPEAT_S - 1) == []
    assert due(hot, A, now=REPEAT_S) == [(B, order("a"))]


def test_a_pull_of_what_is_not_counted_is_no_matter():
    hot = new()
    hot.note_pull(NS, prompt(7), B, 0.0)
    assert len(hot) == 0


def test_no_order_is_repeated_for_ever():
    hot, told = new(), 0
    for minute in range(20):
        serve(hot, A, A, B)
        told += len(due(hot, A, now=minute * REPEAT_S))
    assert told == ORDERS_MAX


def test_the_budget_bounds_what_is_ordered():
    hot = serve(new(blocks_per_s=2.0), A, B, C, D)
    hot.note_session(b"m" * 16, prompt(9), A)
    assert len(due(hot, A, now=100.0)) == 3  # 72 blocks, of which 20 were saved up
    assert 72 / 2.0 - BURST_S == 26.0
    serve(hot, A, A, B)
    for at, blocks in ((101.0, 0), (125.9, 0), (126.0, 0)):
        assert len(due(hot, A, now=at)) == blocks
    late = due(hot, A, now=100.0 + REPEAT_S)
    assert len(late) == 3


def test_a_budget_of_nothing_counts_nothing():
    hot = serve(new(blocks_per_s=0.0), A, A, B)
    assert len(hot) == 0
    assert due(hot, A) == []


def test_a_prefix_that_cools_is_forgotten():
    hot = serve(new(), A, A, B)
    assert due(hot, A, B) == []
    assert due(hot, A, now=HALF_LIFE_S) == []
    assert hot.hot_count == 0
    due(hot, A, now=4 * HALF_LIFE_S)
    assert len(hot) == 0
    due(hot, A, now=9 * HALF_LIFE_S)
    serve(hot, A, A, B)
    assert due(hot, A, now=9 * HALF_LIFE_S) == [(B, order("a"))]


def test_a_sampled_prompt_counts_where_it_has_keys():
    hot = new()
    samples = SampledKeys(PackedKeys.join([SHARED[7], SHARED[15]]), (8, 16))
    for _ in range(3):
        hot.note_session(NS, samples, B)
    assert hot.hot_count == 2
    assert due(hot, A) == [(B, order("a", 16))]


def test_namespaces_are_apart():
    hot = new()
    for namespace in range(3):
        hot.note_session(bytes([namespace]) * 16, prompt(0), B)
    assert hot.hot_count == 0


def test_one_flood_of_prompts_does_not_push_out_what_is_hot():
    hot = serve(new(), A, A, B, A, A, B)
    for own in range(PREFIXES_MAX):
        hot.note_session(NS, prompt(own, shared=0, blocks=4), C)
        assert len(hot) <= PREFIXES_MAX
    assert due(hot, A) == [(B, order("a"))]


def test_of_many_nodes_those_that_served_most_are_remembered():
    hot = serve(new(), *(NodeId(f"n{number:02}") for number in range(NODES_MAX)), A, A)
    assert all(len(prefix.nodes) <= NODES_MAX for prefix in hot._prefixes.values())
    assert due(hot, B) == [(A, order("b"))]


@pytest.mark.parametrize("replicas_max", [1, 2, 4])
@given(
    events=st.lists(
        st.tuples(st.sampled_from([A, B, C, D]), st.integers(4, 24), st.floats(0, 90)), max_size=40
    )
)
def test_copies_and_memory_are_bounded_and_equal_views_order_alike_i8(replicas_max, events):
    first, second = new(replicas_max=replicas_max), new(replicas_max=replicas_max)
    now, holding, ordered = 0.0, {A}, []
    for own, (node_id, shared, pause_s) in enumerate(events):
        now += pause_s
        for hot in (first, second):
            hot.note_session(NS, prompt(own, shared), node_id)
        orders = due(first, *holding, now=now)
        assert orders == due(second, *sorted(holding, reverse=True), now=now)
        holding |= {told for told, _ in orders}
        ordered += orders
        assert all(told != A for told, _ in orders)
        assert len(holding) <= max(1, replicas_max)
    assert len(ordered) <= 3 * ORDERS_MAX
