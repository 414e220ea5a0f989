"""router/traffic.py: the turns so far, and what they mean for the next one."""

from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.routing import CacheHint, NodeEndpoint, NodeState, PlacementReason
from hearthkv.core.session_id import NodeId, SessionId
from router.placement import Choice, PlacementPolicy, Turn
from router.traffic import Served, Traffic

A, B, C = (NodeId(name) for name in "abc")
ONE, TWO = SessionId("one"), SessionId("two")
HOUR = 3600.0
LONG = 100_000
"""Tokens of a prompt that saturates its node."""


def traffic_on(*node_ids: NodeId, weight=1.0) -> Traffic:
    traffic = Traffic(PlacementPolicy(), sessions_max=100, prefill_tokens_per_s=10_000.0)
    follow(traffic, *node_ids, weight=weight)
    for node_id in node_ids:
        traffic.join(node_id, 0.0)
    return traffic


def follow(traffic: Traffic, *node_ids: NodeId, draining=(), weight=1.0) -> None:
    endpoints = [NodeEndpoint(node_id, "x:1", weight=weight) for node_id in node_ids]
    endpoints += [NodeEndpoint(name, "x:1", state=NodeState.DRAINING) for name in draining]
    traffic.nodes.follow(hash(tuple(endpoints)), endpoints)


def play(traffic, session_id, tokens, *, held=None, now=0.0) -> Choice:
    """Place a turn, and take in that it was."""
    matched = held or {}
    turn = Turn(CacheHint.REUSE, tokens // 16, 16, traffic.sessions.last_turn(session_id))
    choice = traffic.place(session_id, turn, matched, lambda _node_id, _blocks: 0, now)
    missing = tokens - max(matched.values(), default=0) * 16
    served = Served(tokens, matched.get(choice.node_id, 0), missing)
    traffic.note(session_id, choice, served, now)
    return choice


def session_at(traffic: Traffic, node_id: NodeId) -> SessionId:
    names = (SessionId(f"session-{number}") for number in range(1000))
    return next(name for name in names if traffic.nodes.ranked(name)[0] == node_id)


def test_new_sessions_fill_the_nodes_one_after_the_other():
    traffic = traffic_on(A, B, C)
    placed = [play(traffic, SessionId(f"s{number}"), LONG).node_id for number in range(9)]
    assert {node_id: placed.count(node_id) for node_id in (A, B, C)} == {A: 3, B: 3, C: 3}


def test_a_node_of_twice_the_weight_gets_twice_the_sessions():
    traffic = traffic_on(A, B)
    endpoints = [NodeEndpoint(A, "x:1", weight=2.0), NodeEndpoint(B, "x:1")]
    traffic.nodes.follow(99, endpoints)
    placed = [
        play(traffic, SessionId(f"s{number}"), 10_000, now=1.5 * number).node_id
        for number in range(30)
    ]
    assert 18 <= placed.count(A) <= 22


def test_loads_are_what_was_placed_or_what_the_node_says():
    traffic = traffic_on(A)
    play(traffic, ONE, LONG)
    assert traffic.load_tokens(A, 5.0) == 50_000
    traffic.hear_load(A, 70_000)
    assert traffic.load_tokens(A, 5.0) == 70_000
    assert traffic.load_tokens(B, 5.0) == 0


def test_what_another_node_holds_is_not_to_be_computed():
    traffic = traffic_on(A)
    play(traffic, ONE, LONG, held={B: LONG // 16})
    assert traffic.load_tokens(A, 0.0) == 0


def test_a_session_does_not_flee_from_its_own_claim():
    traffic = traffic_on(A, B, C)
    first = play(traffic, ONE, LONG).node_id
    # Half of it was lost, and no other session wants anything of its node.
    again = play(traffic, ONE, LONG, held={first: LONG // 32}, now=60.0)
    assert again.node_id == first


def test_a_short_prompt_does_not_move_the_conversation():
    traffic = traffic_on(A, B)
    home = session_at(traffic, A)
    play(traffic, home, LONG)
    assert traffic.sessions.node_of(home) == A
    title = play(traffic, home, 1600, held={B: 100}, now=1.0)
    assert title == Choice(B, A, PlacementReason.PREFIX)
    assert traffic.sessions.node_of(home) == A
    follow_up = play(traffic, home, LONG, held={A: LONG // 16}, now=HOUR)
    assert follow_up == Choice(A, A, PlacementReason.SESSION)


def test_a_short_prompt_moves_a_conversation_whose_node_is_gone():
    traffic = traffic_on(A, B)
    home = session_at(traffic, A)
    play(traffic, home, LONG)
    traffic.forget(A)
    follow(traffic, B)
    assert play(traffic, home, 1600, now=1.0) == Choice(B, B, PlacementReason.FAILOVER)
    assert traffic.sessions.node_of(home) == B


def test_a_session_that_ended_makes_room():
    traffic = traffic_on(A, B)
    here = play(traffic, ONE, LONG).node_id
    assert traffic.wanted_tokens(here, TWO, 1.0) > 1.01 * LONG
    assert traffic.end(ONE, 1.0) == here
    assert traffic.wanted_tokens(here, TWO, 1.0) < 0.2 * LONG  # its work still counts a little
    assert traffic.end(ONE, 1.0) is None


def test_a_session_that_was_handed_over_takes_its_claim_along():
    traffic = traffic_on(A, B)
    here = play(traffic, ONE, LONG).node_id
    there = B if here == A else A
    traffic.hand_over(TWO, here, there, 0.0)
    traffic.hand_over(ONE, there, here, 0.0)  # not by the node that has it
    assert traffic.sessions.node_of(ONE) == here
    traffic.hand_over(ONE, here, there, 0.0)
    assert traffic.sessions.node_of(ONE) == there
    assert traffic.wanted_tokens(there, TWO, 0.0) == LONG
    assert traffic.wanted_tokens(there, ONE, 0.0) == 0
    follow(traffic, there, draining=[here])
    choice = play(traffic, ONE, LONG, held={there: LONG // 16}, now=1.0)
    assert (choice.node_id, choice.reason) == (there, PlacementReason.DRAIN)
    choice = play(traffic, ONE, LONG, held={there: LONG // 16}, now=2.0)
    assert (choice.node_id, choice.reason) == (there, PlacementReason.SESSION)


def test_a_node_that_comes_back_empty_gets_a_fair_start():
    traffic = traffic_on(A, B, C)
    for number in range(30):
        play(traffic, SessionId(f"before-{number}"), LONG, now=20.0 * number)
    now = 600.0
    traffic.join(C, now)
    shares = []
    for number in range(30):
        placed = play(traffic, SessionId(f"after-{number}"), LONG, now=now + 20.0 * number)
        shares.append(placed.node_id == C)
    assert 1 <= sum(shares[:5]) <= 3
    assert 8 <= sum(shares) <= 13


def test_a_ninth_node_moves_no_session_whose_prefix_lies_elsewhere():
    eight = [NodeId(f"node-{number}") for number in range(8)]
    traffic = traffic_on(*eight)
    sessions = [SessionId(f"s{number}") for number in range(100)]
    at = {name: play(traffic, name, LONG, now=10.0 * n).node_id for n, name in enumerate(sessions)}
    ninth = NodeId("node-8")
    follow(traffic, *eight, ninth)
    traffic.join(ninth, HOUR)
    for name in sessions:
        held = {at[name]: LONG // 16}
        assert play(traffic, name, LONG + 1600, held=held, now=HOUR).node_id == at[name]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["s1", "s2", "s3"]),
        st.integers(0, 2 * LONG),
        st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, LONG // 16)),
        st.floats(0, 100),
    )
)


@given(STEPS)
def test_two_routers_with_the_same_history_agree_i8(steps):
    one, two = traffic_on(A, B, C), traffic_on(C, A, B)
    now = 0.0
    for name, tokens, matched, gap_s in steps:
        now += gap_s
        held = {
            node_id: min(blocks, tokens // 16)
            for node_id, blocks in sorted(matched.items(), key=lambda item: (-item[1], item[0]))
        }
        session_id = SessionId(name)
        choices = [play(traffic, session_id, tokens, held=held, now=now) for traffic in (one, two)]
        assert choices[0] == choices[1]
        for node_id in (A, B, C):
            assert one.load_tokens(node_id, now) >= 0
