"""router/room.py: how much of each node's cache is wanted."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.session_id import NodeId
from router.room import CLAIM_FADE_S, WORK_SHARE, Claim, Room

A, B, C = (NodeId(name) for name in "abc")


@pytest.fixture
def room() -> Room:
    room = Room()
    for node_id in (A, B):
        room.join(node_id, (), 0.0)
    return room


def test_nothing_is_wanted_of_an_empty_node(room: Room):
    assert room.wanted(A, 5.0) == 0
    assert room.wanted(C, 5.0) == 0


def test_claims_add_up_and_fade(room: Room):
    room.take(Claim(A, 1000, 0.0))
    room.take(Claim(A, 500, 0.0))
    assert room.wanted(A, 0.0) == 1500
    assert room.wanted(A, CLAIM_FADE_S) == pytest.approx(1500 / math.e)
    assert room.wanted(B, 0.0) == 0


def test_a_claim_that_is_given_back_leaves_the_others(room: Room):
    first, second = Claim(A, 1000, 0.0), Claim(A, 500, 30.0)
    room.take(first)
    room.take(second)
    room.release(first, 60.0)
    assert room.wanted(A, 60.0) == pytest.approx(room.left(second, 60.0))


@pytest.mark.parametrize("node_id", [A, B])
def test_a_claim_takes_the_place_of_the_one_before(room: Room, node_id: NodeId):
    before, after = Claim(A, 1000, 0.0), Claim(node_id, 1200, 50.0)
    room.take(before)
    room.renew(before, after)
    assert room.wanted(node_id, 50.0) == pytest.approx(1200)
    assert room.wanted(B if node_id == A else A, 50.0) == pytest.approx(0)


def test_late_work_counts_a_little(room: Room):
    room.note_computed(A, 1000, 0.0)
    assert room.wanted(A, 0.0) == pytest.approx(WORK_SHARE * 1000)


def test_claims_on_a_node_that_is_gone_or_began_anew_are_worth_nothing(room: Room):
    claim = Claim(A, 1000, 0.0)
    room.take(claim)
    room.forget(A)
    assert room.left(claim, 1.0) == 0
    assert room.wanted(A, 1.0) == 0
    room.join(A, (), 2.0)
    room.take(Claim(A, 300, 2.0))
    room.release(claim, 2.0)
    assert room.wanted(A, 2.0) == 300


def test_a_new_node_begins_as_full_as_its_peers_and_empties_by_itself(room: Room):
    room.take(Claim(A, 3000, 0.0))
    room.take(Claim(B, 1000, 0.0))
    room.join(C, (A, B), 0.0)
    assert room.wanted(C, 0.0) == pytest.approx(2000)
    room.take(Claim(A, 3000, CLAIM_FADE_S))
    assert room.wanted(C, CLAIM_FADE_S) < room.wanted(A, CLAIM_FADE_S)


@given(
    st.lists(
        st.tuples(st.sampled_from([A, B]), st.integers(0, 10**6), st.floats(0, 1000), st.booleans())
    )
)
def test_what_is_wanted_is_the_sum_of_the_claims_and_never_below_0(steps):
    room, now, claims = Room(), 0.0, list[Claim]()
    for node_id in (A, B):
        room.join(node_id, (), 0.0)
    for node_id, tokens, gap_s, is_release in steps:
        now += gap_s
        if is_release and claims:
            room.release(claims.pop(), now)
        else:
            claims.append(Claim(node_id, tokens, now))
            room.take(claims[-1])
        for node in (A, B):
            whole = sum(room.left(claim, now) for claim in claims if claim.node_id == node)
            assert room.wanted(node, now) >= 0
            assert room.wanted(node, now) == pytest.approx(whole, rel=1e-6, abs=1e-3)
