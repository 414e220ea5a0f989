"""router/live_nodes.py: the nodes in the shapes that decisions ask for."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hearthkv.core import rendezvous
from hearthkv.core.routing import NodeEndpoint, NodeState
from hearthkv.core.session_id import NodeId, SessionId
from router.live_nodes import LiveNodes
from router.placement import CANDIDATES_MAX

A, B, C = (NodeId(name) for name in "abc")


def endpoint(node_id: NodeId, state=NodeState.LIVE, weight=1.0) -> NodeEndpoint:
    return NodeEndpoint(node_id, f"{node_id}:1", weight=weight, state=state)


def test_only_live_nodes_get_new_sessions_and_draining_ones_serve_theirs():
    nodes = LiveNodes(10)
    states = (NodeState.LIVE, NodeState.DRAINING, NodeState.SUSPECT)
    nodes.follow(2, [endpoint(*pair) for pair in zip((A, B, C), states, strict=True)])
    assert nodes.live == (A,)
    assert [nodes.is_live(node_id) for node_id in (A, B, C)] == [True, False, False]
    assert [nodes.is_serving(node_id) for node_id in (A, B, C)] == [True, True, False]
    assert nodes.ranked(SessionId("s")) == [A]


def test_a_list_of_the_same_version_is_not_read():
    nodes = LiveNodes(10)
    nodes.follow(2, [endpoint(A)])
    nodes.follow(2, [])
    assert nodes.live == (A,)


def test_weights_are_those_of_the_live_nodes():
    nodes = LiveNodes(10)
    nodes.follow(2, [endpoint(A, weight=3.0), endpoint(B, NodeState.SUSPECT, 5.0)])
    assert (nodes.weight(A), nodes.weight(B)) == (3.0, 1.0)


def test_orders_are_remembered_until_the_nodes_change():
    nodes = LiveNodes(1)
    nodes.follow(2, [endpoint(A), endpoint(B)])
    first = nodes.ranked(SessionId("s"))
    assert nodes.ranked(SessionId("s")) is first
    nodes.follow(3, [endpoint(A), endpoint(B), endpoint(C, NodeState.SUSPECT)])
    assert nodes.ranked(SessionId("s")) is first
    nodes.ranked(SessionId("t"))
    assert nodes.ranked(SessionId("s")) is not first
    nodes.follow(4, [endpoint(A)])
    assert nodes.ranked(SessionId("s")) == [A]
    nodes.follow(5, [])
    assert nodes.ranked(SessionId("s")) == []


def test_the_order_is_that_of_the_hash_and_has_its_first_nodes():
    nodes = LiveNodes(10)
    endpoints = [endpoint(NodeId(f"node-{number}")) for number in range(20)]
    nodes.follow(2, endpoints)
    weights = [(node.node_id, node.weight) for node in endpoints]
    expected = rendezvous.rank(SessionId("s"), weights)[:CANDIDATES_MAX]
    assert nodes.ranked(SessionId("s")) == expected


@settings(max_examples=5)
@given(st.integers(0, 10**6))
def test_a_ninth_node_moves_a_ninth_of_the_homes(seed):
    eight, nine = LiveNodes(1), LiveNodes(1)
    endpoints = [endpoint(NodeId(f"node-{number}")) for number in range(9)]
    eight.follow(2, endpoints[:8])
    nine.follow(2, endpoints)
    sessions = [SessionId(f"{seed}-{number}") for number in range(4000)]
    homes = [(eight.ranked(session)[0], nine.ranked(session)[0]) for session in sessions]
    moved = [after for before, after in homes if after != before]
    assert set(moved) == {"node-8"}
    assert len(moved) / len(sessions) <= 1 / 9 + 0.02
