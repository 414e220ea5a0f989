"""A node that lies harms itself alone: no other node's blocks, sessions or place in the index."""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import BadRequestError, LimitError
from hearthkv.core.routing import BlockEvent, EventBatch, NodeLoad, NodeState, SnapshotPart
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier
from router.cluster import Cluster
from router.outcome import StreamId
from router.settings import RouterSettings
from tests.scenario.node_reports import (
    NS,
    PROMPT,
    hello,
    inventory,
    join,
    lies,
    prefix_of,
    turn,
)

KEYS_MAX = 96
HONEST = NodeId("honest")
HELD = 40  # of a fair share of 48


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([2, 3]), lies("liar") | st.none(), st.floats(0, 3)), max_size=60
    )
)
def test_whatever_a_node_says_the_others_keep_what_they_have(said):
    router = Cluster(RouterSettings(index_keys_max=KEYS_MAX, nodes_max=2, lease_s=1000.0))
    join(router, 1, HONEST, HELD)
    router.route(turn("s"), 0.0)
    assert router.sessions.node_of(SessionId("s")) == HONEST
    now = 0.0
    for stream, lie, pause_s in said:
        now += pause_s
        with suppress(BadRequestError, LimitError):
            if lie is None:
                router.lose(StreamId(stream), now)
            else:
                router.hear(StreamId(stream), lie, now)
        router.hear(StreamId(1), NodeLoad(), now)
        router.sweep(now)
        assert prefix_of(router, HONEST) == HELD
        assert router.index.keys_of(HONEST) == HELD
        assert router.index.keys <= KEYS_MAX
        assert router.sessions.node_of(SessionId("s")) == HONEST
        assert router.membership.endpoint(HONEST).state is NodeState.LIVE
        assert len(router.endpoints()) <= 2


def test_one_node_too_many_and_one_without_a_name_change_nothing():
    router = Cluster(RouterSettings(nodes_max=1))
    join(router, 1, HONEST, HELD)
    for stream, message in ((2, hello("other")), (3, inventory(9)), (4, EventBatch(1))):
        with suppress(BadRequestError, LimitError):
            router.hear(StreamId(stream), message, 0.0)
    assert [node.node_id for node in router.endpoints()] == [HONEST]
    assert router.index.keys == HELD


def test_a_snapshot_without_an_end_takes_no_more_than_its_share_and_is_asked_for_again():
    router = Cluster(RouterSettings(index_keys_max=KEYS_MAX))
    join(router, 1, HONEST, HELD)
    router.hear(StreamId(2), hello("liar"), 0.0)
    orders = []
    for second in range(600):
        keys = PackedKeys(b"".join((1000 + second * 8 + i).to_bytes(16) for i in range(8)))
        part = SnapshotPart(NS, Tier.SSD, keys, is_first=second == 0, is_last=False)
        router.hear(StreamId(2), part, float(second))
        router.hear(StreamId(1), NodeLoad(), float(second))
        orders += [order for stream, order in router.sweep(float(second)).answers if stream == 2]
    assert 1 <= len(orders) <= 600 // 10
    assert router.index.keys <= KEYS_MAX
    assert prefix_of(router, HONEST) == HELD
    assert router.feeds.lag_s(600.0) > 500


def test_the_blocks_of_another_are_a_match_at_the_liar_alone():
    """A node may say that it holds what only another one holds: a miss there, and no more."""
    router = Cluster(RouterSettings())
    join(router, 1, HONEST, HELD)
    join(router, 2, "liar", 64)
    router.hear(StreamId(2), EventBatch(1, (BlockEvent(NS, PROMPT.slice(0, HELD), None),)), 0.0)
    assert prefix_of(router, HONEST) == HELD
