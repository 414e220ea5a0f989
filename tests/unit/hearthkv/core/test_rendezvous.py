"""Sessions are shared by weight, and move only when they must (I8)."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.rendezvous import Rendezvous, owner, rank
from hearthkv.core.session_id import NodeId, SessionId

NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)
IDS = st.text(st.sampled_from("ab-1"), min_size=1, max_size=4).map(NodeId)
NODES = st.dictionaries(IDS, st.floats(0.01, 100), max_size=6)
SESSIONS = [SessionId(f"session-{number}") for number in range(4000)]


@given(NAMES, NODES, st.randoms())
def test_order_of_the_nodes_is_of_no_account(session, nodes, shuffler):
    shuffled = list(nodes.items())
    shuffler.shuffle(shuffled)
    assert rank(SessionId(session), shuffled) == rank(SessionId(session), nodes.items())


@given(NAMES, NODES)
def test_the_owner_is_the_first_of_the_ranks(session, nodes):
    ranked = rank(SessionId(session), nodes.items())
    assert sorted(ranked) == sorted(nodes)
    assert owner(SessionId(session), nodes.items()) == (ranked[0] if ranked else None)


@given(NAMES, NODES, IDS, st.floats(0.01, 100))
def test_a_node_that_joins_or_leaves_changes_no_order_among_the_others(
    session, nodes, joining, weight
):
    nodes.pop(joining, None)
    before = rank(SessionId(session), nodes.items())
    after = rank(SessionId(session), [*nodes.items(), (joining, weight)])
    assert [node for node in after if node != joining] == before


@given(NAMES, NODES.filter(bool), st.floats(1, 10))
def test_more_weight_never_costs_a_session(session, nodes, factor):
    mine = owner(SessionId(session), nodes.items())
    assert mine is not None
    heavier = nodes | {mine: nodes[mine] * factor}
    assert owner(SessionId(session), heavier.items()) == mine


@given(NAMES, NODES, st.integers(0, 7))
def test_the_first_nodes_are_those_of_the_ranks(session, nodes, count):
    prepared = Rendezvous(nodes.items())
    assert len(prepared) == len(nodes)
    assert prepared.first(SessionId(session), count) == prepared.rank(SessionId(session))[:count]
    assert prepared.rank(SessionId(session)) == rank(SessionId(session), nodes.items())
    assert prepared.owner(SessionId(session)) == owner(SessionId(session), nodes.items())


def owners(nodes: list[tuple[NodeId, float]]) -> list[NodeId | None]:
    return list(map(Rendezvous(nodes).owner, SESSIONS))


def test_a_ninth_node_moves_only_sessions_to_itself_and_no_more_than_its_share():
    eight = [(NodeId(f"node-{number}"), 1.0) for number in range(8)]
    after = owners([*eight, (NodeId("node-8"), 1.0)])
    moved = [new for old, new in zip(owners(eight), after, strict=True) if old != new]
    assert set(moved) == {"node-8"}
    assert len(moved) / len(SESSIONS) <= 1 / 9 + 0.02
    # Binomial with p = 1/9: four standard deviations are about 80 of 4000.
    assert abs(len(moved) - 4000 / 9) < 4 * math.sqrt(4000 / 9 * 8 / 9)


def test_sessions_of_a_node_that_leaves_are_shared_by_those_that_stay():
    nodes = [(NodeId(f"node-{number}"), 1.0) for number in range(9)]
    before, after = owners(nodes), owners(nodes[1:])
    heirs = Counter(
        new for old, new in zip(before, after, strict=True) if old == "node-0" or old != new
    )
    assert set(heirs) == {node_id for node_id, _ in nodes[1:]}
    expected = sum(heirs.values()) / 8
    assert all(abs(count - expected) < 5 * math.sqrt(expected) for count in heirs.values())


def test_a_thousand_nodes_get_equal_shares():
    nodes = [(NodeId(f"node-{number}"), 1.0) for number in range(1000)]
    counts = Counter(owners(nodes))
    # The variance of 4000 throws into 1000 places is about 4 each.
    spread = sum((counts[node_id] - 4) ** 2 for node_id, _ in nodes) / 1000
    assert 3 < spread < 5


def test_sessions_are_shared_in_the_proportion_of_the_weights():
    nodes = [(NodeId("a"), 1.0), (NodeId("b"), 2.0), (NodeId("c"), 5.0)]
    counts = Counter(owners(nodes))
    for node_id, weight in nodes:
        share = weight / 8
        spread = math.sqrt(4000 * share * (1 - share))
        assert abs(counts[node_id] - 4000 * share) < 4 * spread


def test_the_second_choice_is_spread_as_well():
    nodes = [(NodeId(name), 1.0) for name in "abcd"]
    firsts = [Rendezvous(nodes).first(session, 2) for session in SESSIONS]
    seconds = Counter(second for first, second in firsts if first == "a")
    expected = sum(seconds.values()) / 3
    assert all(abs(count - expected) < 5 * math.sqrt(expected) for count in seconds.values())


def test_equal_draws_go_to_the_smaller_id():
    # Weights so large that all scores are infinite.
    nodes = [(NodeId("b"), 1.7e308), (NodeId("a"), 1.6e308)]
    tied = [s for s in SESSIONS if rank(s, nodes) == ["a", "b"]]
    assert len(tied) > len(SESSIONS) / 2


def test_nodes_of_which_the_hashes_are_equal_are_ordered_by_id(monkeypatch):
    monkeypatch.setattr("hearthkv.core.rendezvous._hash64", len)
    nodes = [(NodeId(name), 1.0) for name in "cab"]
    assert rank(SessionId("session"), nodes) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("session", "expected"),
    [("agent-1", "node-1"), ("agent-2", "node-4"), ("sitzung-ü", "node-3"), ("会话", "node-2")],
)
def test_owners_are_the_same_in_every_version(session, expected):
    nodes = [(NodeId(f"node-{number}"), 1.0) for number in range(5)]
    assert owner(SessionId(session), nodes) == expected
