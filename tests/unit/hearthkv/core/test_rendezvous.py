"""Sessions are shared by weight, and move only when they must (I8)."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core import rendezvous
from hearthkv.core.rendezvous import owner, rank
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


def test_a_new_node_takes_its_share_and_no_more():
    before = [(NodeId(name), 1.0) for name in "abcd"]
    after = [*before, (NodeId("e"), 1.0)]
    moved = [(owner(s, before), owner(s, after)) for s in SESSIONS]
    takers = Counter(new for old, new in moved if old != new)
    assert set(takers) == {"e"}
    # Binomial with p = 1/5: four standard deviations are about 100 of 4000.
    assert abs(takers[NodeId("e")] - 800) < 4 * math.sqrt(4000 * 0.2 * 0.8)


def test_sessions_are_shared_in_the_proportion_of_the_weights():
    nodes = [(NodeId("a"), 1.0), (NodeId("b"), 2.0), (NodeId("c"), 5.0)]
    counts = Counter(owner(session, nodes) for session in SESSIONS)
    for node_id, weight in nodes:
        share = weight / 8
        spread = math.sqrt(4000 * share * (1 - share))
        assert abs(counts[node_id] - 4000 * share) < 4 * spread


def test_the_second_choice_is_spread_as_well():
    nodes = [(NodeId(name), 1.0) for name in "abcd"]
    seconds = Counter(order[1] for s in SESSIONS if (order := rank(s, nodes))[0] == "a")
    expected = sum(seconds.values()) / 3
    assert all(abs(count - expected) < 5 * math.sqrt(expected) for count in seconds.values())


def test_ids_are_not_run_together():
    one = rendezvous._score(SessionId("ab"), NodeId("c"), 1.0)
    assert one != rendezvous._score(SessionId("a"), NodeId("bc"), 1.0)


def test_equal_scores_go_to_the_smaller_id():
    # Weights so large that both scores are infinite.
    nodes = [(NodeId("b"), 1.7e308), (NodeId("a"), 1.7e308)]
    tied = [s for s in SESSIONS if rank(s, nodes) == ["a", "b"]]
    assert len(tied) > len(SESSIONS) / 2


@pytest.mark.parametrize(
    ("session", "expected"),
    [("agent-1", "node-2"), ("agent-2", "node-3"), ("sitzung-ü", "node-2"), ("会话", "node-2")],
)
def test_owners_are_the_same_in_every_version(session, expected):
    nodes = [(NodeId(f"node-{number}"), 1.0) for number in range(5)]
    assert owner(SessionId(session), nodes) == expected
