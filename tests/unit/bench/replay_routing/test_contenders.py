"""The ways to choose a node."""

import pytest

from bench.replay.prefix_runs import cut
from bench.replay_routing.contenders import CONTENDERS, OURS, RealRouter
from bench.replay_routing.nodes import ReplayedNode, RunKeys, Turn
from hearthkv.core.session_id import SessionId
from tests.unit.bench.replay.replay_kit import BLOCK_TOKENS, trace_of

TRACE = trace_of([0, 1, 2, 3], [0, 1, 2, 3, 4], [9])
RUNS = cut(TRACE)
KEYS = RunKeys(RUNS, BLOCK_TOKENS)


def nodes_of(count: int) -> list[ReplayedNode]:
    return [ReplayedNode(RUNS, KEYS, capacity_blocks=100) for _ in range(count)]


def turn(index: int, session_id="s") -> Turn:
    request = TRACE.requests[index]
    return Turn(SessionId(session_id), RUNS.prompts[index], request.tokens, request.at_s)


def made(name: str, nodes: list[ReplayedNode]):
    return CONTENDERS[name](nodes, KEYS, BLOCK_TOKENS)


def test_round_robin_takes_each_node_in_turn():
    contender = made("round robin", nodes_of(3))
    assert [contender.choose(turn(0)) for _ in range(4)] == [(1, ()), (2, ()), (0, ()), (1, ())]


def test_session_hash_keeps_a_session_and_spreads_sessions():
    contender = made("session hash", nodes_of(4))
    chosen = {contender.choose(turn(0, f"s{number}"))[0] for number in range(50)}
    assert chosen == {0, 1, 2, 3}
    assert contender.choose(turn(0)) == contender.choose(turn(2))


def test_longest_prefix_takes_the_holder_and_else_who_computed_least():
    nodes = nodes_of(3)
    contender = made("longest prefix", nodes)
    nodes[2].serve(turn(0).prompt, 0)
    assert contender.choose(turn(1)) == (2, ())
    nodes[0].tally.computed_tokens = 5
    assert contender.choose(turn(2)) == (1, ())


@pytest.mark.parametrize("name", [OURS, f"{OURS}, no pulls"])
def test_the_real_router_follows_the_events_of_the_nodes(name: str):
    nodes = nodes_of(2)
    contender = made(name, nodes)
    assert isinstance(contender, RealRouter)
    nodes[1].serve(turn(0).prompt, 0)
    contender.note(1)
    node, sources = contender.choose(turn(1))
    assert (node, list(sources)) == (1, [])
    assert contender.cluster.index.keys == 1
    assert contender.reasons == {"prefix": 1}


def test_what_is_not_pulled_has_no_source():
    sources = []
    for name in (OURS, f"{OURS}, no pulls"):
        nodes = nodes_of(2)
        contender = CONTENDERS[name](nodes, KEYS, 512)
        first, _ = contender.choose(turn(0))
        holder = 1 - first
        nodes[holder].serve(turn(0).prompt, 0)
        contender.note(holder)
        # A holder that must compute a lot before is left for one that must not.
        contender.cluster.traffic.hear_load(f"node-{holder}", 10**9)
        node, named = contender.choose(turn(1))
        assert node == first
        sources.append(list(named))
        assert contender.reasons == {"home": 1, "session": 1}
    assert sources == [[1 - node], []]
