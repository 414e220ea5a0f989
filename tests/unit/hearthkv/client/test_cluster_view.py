"""Tests of hearthkv/client/cluster_view.py."""

from hypothesis import given
from hypothesis import strategies as st

from hearthkv.client.cluster_view import ClusterView
from hearthkv.core import rendezvous
from hearthkv.core.routing import NodeEndpoint, NodeState, PlacementReason
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import TierCounts

S = SessionId("session")


def node(name: str, state: NodeState = NodeState.LIVE, weight: float = 1.0) -> NodeEndpoint:
    return NodeEndpoint(NodeId(name), f"{name}:7500", f"http://{name}", 1, weight, state)


def view_of(*nodes: NodeEndpoint) -> ClusterView:
    view = ClusterView()
    view.replace(nodes)
    return view


def test_nothing_is_known_at_first():
    assert ClusterView().nodes == ()
    assert ClusterView().route(S) is None


def test_a_session_goes_to_its_home_with_nothing_matched():
    nodes = [node("a"), node("b"), node("c")]
    home = rendezvous.owner(S, ((n.node_id, n.weight) for n in nodes))
    route = view_of(*nodes).route(S)
    assert route is not None
    assert (route.node.node_id, route.home_node_id) == (home, home)
    assert (route.reason, route.matched) == (PlacementReason.HOME, TierCounts())


def test_a_home_that_is_left_alone_gives_its_sessions_to_the_next():
    nodes = [node("a"), node("b"), node("c")]
    first, second, _ = rendezvous.rank(S, ((n.node_id, n.weight) for n in nodes))
    route = view_of(*nodes).route(S, {f"{first}:7500"})
    assert route is not None
    assert (route.node.node_id, route.home_node_id) == (second, first)
    assert route.reason is PlacementReason.FAILOVER


def test_no_route_where_every_node_is_left_alone():
    assert view_of(node("a")).route(S, {"a:7500"}) is None


def test_a_suspect_node_gets_no_session():
    view = view_of(node("a", NodeState.SUSPECT), node("b"))
    assert [n.node_id for n in view.nodes] == ["b"]


def test_a_new_list_replaces_the_old_one():
    view = view_of(node("a"))
    view.replace([node("b")])
    route = view.route(S)
    assert route is not None
    assert route.node.node_id == "b"


@given(st.permutations(["a", "b", "c", "d"]), st.text(min_size=1, max_size=20).map(SessionId))
def test_clients_agree_whatever_the_order_of_the_list(names: list[str], session: SessionId):
    if any(0xD800 <= ord(char) < 0xE000 for char in session):
        return  # such a text is no session id
    assert view_of(*map(node, names)).route(session) == view_of(*map(node, sorted(names))).route(
        session
    )
