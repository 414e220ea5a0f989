"""router/placement.py: who gets a turn, and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core import rendezvous
from hearthkv.core.errors import NoNodeError
from hearthkv.core.routing import CacheHint, PlacementReason
from hearthkv.core.session_id import NodeId, SessionId
from router.placement import Choice, ReusePolicy, Turn, place

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
THREE = [(A, 1.0), (B, 1.0), (C, 1.0)]
POLICY = ReusePolicy(min_fraction=0.5, min_gain_blocks=32)


def session_at_home(node_id: NodeId, weights=THREE) -> SessionId:
    """A session whose home is `node_id`."""
    ids = (SessionId(f"session-{number}") for number in range(1000))
    return next(found for found in ids if rendezvous.owner(found, weights) == node_id)


def placed(*, last=None, hint=CacheHint.REUSE, blocks=100, matched=None, weights=THREE, home=A):
    turn = Turn(session_at_home(home), hint, blocks, last)
    return place(turn, weights=weights, matched_blocks=matched or {}, policy=POLICY)


def test_without_a_live_node_there_is_no_placement():
    with pytest.raises(NoNodeError, match="0 cache nodes are live, at least 1 must be"):
        place(
            Turn(SessionId("s"), CacheHint.NONE, 0, A),
            weights=[],
            matched_blocks={},
            policy=POLICY,
        )


@pytest.mark.parametrize("hint", [CacheHint.NONE, CacheHint.BYPASS])
def test_without_the_hint_a_new_session_goes_home_whoever_holds_its_prefix(hint: CacheHint):
    choice = placed(hint=hint, matched={B: 100}, home=A)
    assert choice == Choice(A, A, PlacementReason.HOME)


@pytest.mark.parametrize("hint", [CacheHint.NONE, CacheHint.BYPASS])
def test_without_the_hint_a_session_stays_whoever_holds_its_prefix(hint: CacheHint):
    choice = placed(hint=hint, last=C, matched={B: 100}, home=A)
    assert choice == Choice(C, A, PlacementReason.SESSION)


@pytest.mark.parametrize("hint", list(CacheHint))
def test_a_session_whose_node_is_gone_goes_home(hint: CacheHint):
    choice = placed(hint=hint, last=NodeId("gone"), matched={NodeId("gone"): 100}, home=B)
    assert choice == Choice(B, B, PlacementReason.FAILOVER)


def test_a_prompt_without_keys_stays_with_its_session():
    assert placed(blocks=0, last=C) == Choice(C, A, PlacementReason.SESSION)


def test_a_prompt_without_keys_of_a_new_session_goes_home():
    assert placed(blocks=0, home=B) == Choice(B, B, PlacementReason.HOME)


@pytest.mark.parametrize(
    ("last", "matched", "expected"),
    [
        pytest.param(A, {B: 50}, B, id="half-of-the-prompt-moves"),
        pytest.param(A, {B: 49, A: 18}, A, id="less-than-half-and-a-small-gain-stays"),
        pytest.param(A, {B: 49, A: 17}, B, id="less-than-half-and-a-gain-of-32-moves"),
        pytest.param(A, {B: 80, A: 79}, B, id="half-of-the-prompt-and-longer-moves"),
        pytest.param(A, {B: 80, A: 80}, A, id="an-equal-match-stays"),
        pytest.param(C, {A: 80, B: 80}, A, id="equal-matches-go-to-the-smaller-id"),
        pytest.param(None, {B: 32}, B, id="a-new-session-gains-all-of-a-match"),
        pytest.param(None, {B: 31}, A, id="a-short-match-leaves-a-new-session-at-home"),
        pytest.param(None, {A: 60, B: 60}, A, id="home-wins-among-equals"),
    ],
)
def test_a_match_moves_a_session_if_it_is_worth_it(last, matched, expected):
    assert placed(last=last, matched=matched, home=A).node_id == expected


def test_home_is_preferred_to_a_smaller_id_among_equals():
    choice = placed(matched={A: 60, B: 60, C: 60}, home=C)
    assert choice == Choice(C, C, PlacementReason.PREFIX)


def test_a_move_names_prefix_as_its_reason_and_home_as_home():
    assert placed(last=A, matched={B: 90}, home=C) == Choice(B, C, PlacementReason.PREFIX)


def test_a_session_whose_node_is_gone_moves_to_its_prefix():
    choice = placed(last=NodeId("gone"), matched={C: 90}, home=B)
    assert choice == Choice(C, B, PlacementReason.PREFIX)


@given(st.permutations([(A, 10), (B, 20), (C, 30)]))
def test_the_longest_match_wins_not_the_first(held):
    blocks = dict(held)
    weights = [(node_id, 1.0) for node_id, _ in held]
    choice = placed(blocks=40, matched=blocks, weights=weights)
    assert choice.node_id == C
    assert choice.reason is PlacementReason.PREFIX


@given(
    matched=st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 100)),
    weights=st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.1, 10), min_size=1),
    last=st.none() | st.sampled_from("abcdefgh"),
    hint=st.sampled_from(CacheHint),
    session=st.text(min_size=1),
    data=st.data(),
)
def test_two_routers_agree_whatever_order_they_know_the_nodes_in_i8(
    *, matched, weights, last, hint, session, data
):
    turn = Turn(SessionId(session), hint, 100, last)
    one, two = (
        place(
            turn,
            weights=data.draw(st.permutations(list(weights.items()))),
            matched_blocks=dict(data.draw(st.permutations(list(matched.items())))),
            policy=POLICY,
        )
        for _ in range(2)
    )
    assert one == two
    assert one.node_id in weights
    assert one.home_node_id in weights
