"""Routers that never speak to each other answer alike, and a client that goes to another one."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hearthkv.client.cluster_view import ClusterView
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.routing import CacheHint, NodeLoad, PlacementReason
from hearthkv.core.session_id import NodeId, SessionId
from router.cluster import Cluster
from router.outcome import StreamId
from router.settings import RouterSettings
from tests.scenario.node_reports import NO_KEYS, PROMPT, hello, inventory, join, turn

NODES = ("a", "b", "c", "d", "e")


class Past:
    """A router with a past of its own, which is to end in the same view as any other."""

    def __init__(self) -> None:
        self.router = Cluster(RouterSettings())
        self.streams: dict[str, StreamId] = {}
        self.last = 0

    def join(self, node: str, blocks: int, epoch: int) -> None:
        self.last += 1
        self.streams[node] = StreamId(self.last)
        self.router.hear(self.streams[node], hello(node, epoch), 0.0)
        self.router.hear(self.streams[node], inventory(blocks), 0.0)

    def lose(self, node: str) -> None:
        if node in self.streams:
            self.router.lose(self.streams.pop(node), 0.0)

    def settle(self, view: dict[str, tuple[int, bool]]) -> Cluster:
        """End where all nodes of a view are there with their last inventory."""
        for node in NODES:
            if node in view:
                blocks, is_draining = view[node]
                if node not in self.streams:
                    self.join(node, blocks, 9)
                self.router.hear(self.streams[node], inventory(blocks), 0.0)
                self.router.hear(self.streams[node], NodeLoad(is_draining=is_draining), 0.0)
            else:
                self.lose(node)
        return self.router


steps = st.lists(
    st.tuples(st.sampled_from(NODES), st.booleans(), st.integers(0, 64), st.integers(1, 3)),
    max_size=20,
)
views = st.dictionaries(
    st.sampled_from(NODES), st.tuples(st.integers(0, 64), st.booleans()), min_size=1
)


def lived(past: list[tuple[str, bool, int, int]], view: dict[str, tuple[int, bool]]) -> Cluster:
    history = Past()
    for node, is_there, blocks, epoch in past:
        if is_there:
            history.join(node, blocks, epoch)
        else:
            history.lose(node)
    return history.settle(view)


@settings(max_examples=150, deadline=None)
@given(steps, steps, views, st.text("xyz", min_size=1, max_size=8), st.sampled_from(CacheHint))
def test_equal_views_give_equal_answers_whatever_the_past_i8(one, other, view, session, hint):
    assume(any(not is_draining for _, is_draining in view.values()))
    first, second = lived(one, view), lived(other, view)
    for query in (turn(session, hint=hint), turn(session, PROMPT.slice(0, 9), hint)):
        mine, yours = first.route(query, 1.0).route, second.route(query, 1.0).route
        assert (mine.node.node_id, mine.home_node_id, mine.reason, mine.matched) == (
            yours.node.node_id,
            yours.home_node_id,
            yours.reason,
            yours.matched,
        )
        assert [(source.node.node_id, source.blocks) for source in mine.pull_from] == [
            (source.node.node_id, source.blocks) for source in yours.pull_from
        ]


@settings(max_examples=150, deadline=None)
@given(steps, views, st.text("xyz", min_size=1, max_size=8))
def test_a_client_that_hashes_by_itself_finds_the_home_that_a_router_gives(past, view, session):
    assume(any(not is_draining for _, is_draining in view.values()))
    router = lived(past, view)
    watched = ClusterView()
    watched.replace(router.endpoints())
    by_hash = watched.route(SessionId(session))
    asked = router.route(turn(session, NO_KEYS, CacheHint.NONE), 1.0).route
    assert by_hash is not None
    assert asked.reason is PlacementReason.HOME
    assert by_hash.node.node_id == asked.node.node_id == asked.home_node_id


def routed(router: Cluster, session: str, blocks: int) -> NodeId:
    """The node of a turn."""
    return router.route(turn(session, PROMPT.slice(0, blocks)), 1.0).route.node.node_id


def test_a_session_that_fails_over_to_another_router_finds_its_prefix():
    first, second = Cluster(RouterSettings()), Cluster(RouterSettings())
    for router in (first, second):
        for stream, node in enumerate(NODES):
            join(router, stream, node, 0)
    home = first.route(turn("s"), 1.0).route.home_node_id
    other = next(node for node in NODES if node != home)
    for router in (first, second):  # the prefix is held elsewhere, say by a spill
        router.hear(StreamId(NODES.index(other)), inventory(40), 2.0)
    assert routed(first, "s", 44) == other
    assert second.sessions.node_of(SessionId("s")) is None
    assert routed(second, "s", 44) == other


def test_a_session_without_keys_that_fails_over_goes_home_on_every_router():
    first, second = Cluster(RouterSettings()), Cluster(RouterSettings())
    for router in (first, second):
        for stream, node in enumerate(NODES):
            join(router, stream, node, 0)
    query = turn("s", PackedKeys(b""), CacheHint.NONE)
    assert first.route(query, 1.0).route.node == second.route(query, 2.0).route.node
    assert second.route(query, 3.0).route.reason is PlacementReason.SESSION
