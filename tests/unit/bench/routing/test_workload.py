"""bench/routing/workload.py: a cluster full of sessions, and their next turns."""

import pytest

from bench.routing.workload import PROMPT_TOKENS, SYSTEM_BLOCKS, Workload
from hearthkv.core.routing import NodeHello
from router.cluster import Cluster
from router.membership import StreamId
from router.settings import RouterSettings


def filled(workload: Workload) -> Cluster:
    cluster = Cluster(RouterSettings())
    for node in range(workload.nodes):
        cluster.hear(StreamId(node), NodeHello(workload.endpoint(node)), 0.0)
    for node, part in workload.snapshots():
        cluster.hear(StreamId(node), part, 0.0)
    return cluster


@pytest.mark.parametrize("nodes", [3, 40])
def test_the_index_has_about_as_many_blocks_as_were_asked_for(nodes: int):
    workload = Workload(nodes, 100_000)
    assert set(workload.sessions()) == set(PROMPT_TOKENS)
    blocks = filled(workload).index.keys - nodes * SYSTEM_BLOCKS
    assert 80_000 < blocks <= 100_000


def test_the_next_turn_of_a_session_matches_all_that_its_node_holds():
    workload = Workload(3, 20_000)
    cluster = filled(workload)
    for sessions in workload.sessions().values():
        for session in sessions[:5]:
            query = session.query()
            matches = cluster.index.look_up(query.namespace_id, query.keys).prefixes()
            own = workload.endpoint(session.node).node_id
            assert matches[own] == session.held_blocks
            assert set(matches.values()) <= {session.held_blocks, SYSTEM_BLOCKS}


def test_a_node_without_sessions_says_that_it_holds_nothing():
    parts = [part for node, part in Workload(2000, 20_000).snapshots() if node == 1999]
    assert [(part.is_first, part.is_last, len(part.keys)) for part in parts] == [(True, True, 0)]
