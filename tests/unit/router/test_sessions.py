"""router/sessions.py: where each session's last turn went."""

from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.routing import SessionStatus
from hearthkv.core.session_id import NodeId, SessionId
from router.placement import LastTurn
from router.room import Claim
from router.sessions import Sessions

A, B = NodeId("a"), NodeId("b")


def turn(sessions: Sessions, session_id: str, node_id: NodeId = A, *, now: float = 0.0) -> None:
    sessions.note_turn(SessionId(session_id), node_id, prompt_tokens=100, matched_blocks=5, now=now)


def test_an_unknown_session_has_no_node():
    assert Sessions(1).node_of(SessionId("s")) is None


def test_a_session_is_on_the_node_of_its_last_turn():
    sessions = Sessions(2)
    turn(sessions, "s", A)
    turn(sessions, "s", B)
    assert sessions.node_of(SessionId("s")) == B
    assert (sessions.count_on(A), sessions.count_on(B)) == (0, 1)


def test_ids_are_compared_whole():
    sessions = Sessions(10)
    turn(sessions, "session-1", A)
    turn(sessions, "session-12", B)
    assert sessions.node_of(SessionId("session-1")) == A
    assert sessions.node_of(SessionId("session-12")) == B
    assert sessions.end(SessionId("session-1")) == A
    assert sessions.node_of(SessionId("session-12")) == B
    assert sessions.node_of(SessionId("session-")) is None


def test_the_session_that_was_idle_longest_is_forgotten_first():
    sessions = Sessions(2)
    turn(sessions, "one")
    turn(sessions, "two")
    turn(sessions, "one")
    turn(sessions, "three")
    assert sessions.node_of(SessionId("two")) is None
    assert sessions.node_of(SessionId("one")) == A
    assert len(sessions) == 2


def test_a_turn_of_a_known_session_forgets_no_other():
    sessions = Sessions(2)
    turn(sessions, "one")
    turn(sessions, "two")
    turn(sessions, "two")
    assert sessions.node_of(SessionId("one")) == A


def test_an_ended_session_is_forgotten():
    sessions = Sessions(2)
    turn(sessions, "s", A)
    assert sessions.end(SessionId("s")) == A
    assert sessions.end(SessionId("s")) is None
    assert sessions.count_on(A) == 0


def test_the_latest_sessions_are_listed_first():
    sessions = Sessions(10)
    turn(sessions, "one", A, now=1.0)
    turn(sessions, "two", B, now=2.0)
    turn(sessions, "one", A, now=3.0)
    assert sessions.latest(10, now=5.0) == [
        SessionStatus(SessionId("one"), A, 2, 100, 5, 2.0),
        SessionStatus(SessionId("two"), B, 1, 100, 5, 3.0),
    ]
    assert [status.session_id for status in sessions.latest(1, now=5.0)] == ["one"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["turn", "end"]), st.text("12", max_size=3), st.sampled_from("ab")
        )
    )
)
def test_sessions_are_bounded_and_agree_with_a_plain_list(steps):
    sessions, expected = Sessions(3), {}
    for step, session_id, node_id in steps:
        known = expected.pop(session_id, None)
        if step == "end":
            assert sessions.end(SessionId(session_id)) == known
            continue
        turn(sessions, session_id, NodeId(node_id))
        expected[session_id] = node_id
        if len(expected) > 3:
            del expected[next(iter(expected))]
    listed = [(status.session_id, status.node_id) for status in sessions.latest(10, now=0.0)]
    assert listed == list(reversed(expected.items()))
    for node_id in (A, B):
        assert sessions.count_on(node_id) == list(expected.values()).count(node_id)


def test_a_session_that_was_handed_over_is_on_its_new_node():
    sessions = Sessions(10)
    turn(sessions, "one", A)
    sessions.move(SessionId("one"), A, B)
    assert (sessions.node_of(SessionId("one")), sessions.count_on(A), sessions.count_on(B)) == (
        B,
        0,
        1,
    )


def test_only_the_node_that_has_a_session_hands_it_over():
    sessions = Sessions(10)
    turn(sessions, "one", A)
    sessions.move(SessionId("one"), B, B)
    sessions.move(SessionId("two"), A, B)
    assert (sessions.node_of(SessionId("one")), sessions.node_of(SessionId("two"))) == (A, None)


def test_a_session_that_was_handed_over_says_so_until_its_next_turn():
    sessions = Sessions(10)
    turn(sessions, "one", A)
    assert sessions.last_turn(SessionId("one")) == LastTurn(A)
    sessions.move(SessionId("one"), A, B)
    assert sessions.last_turn(SessionId("one")) == LastTurn(B, is_handed_over=True)
    turn(sessions, "one", B)
    assert sessions.last_turn(SessionId("one")) == LastTurn(B)
    assert sessions.last_turn(SessionId("two")) is None


def test_a_turn_aside_leaves_a_session_where_its_main_prompt_is():
    sessions, one = Sessions(10), SessionId("one")
    turn(sessions, "one", A, now=1.0)
    assert not sessions.is_aside(one, 50)
    assert sessions.is_aside(one, 49)
    sessions.note_aside(one, prompt_tokens=10, matched_blocks=0, now=9.0)
    assert sessions.last_turn(one) == LastTurn(A)
    assert sessions.claim(one) == sessions.claim_on(one, A) == Claim(A, 88, 1.0)
    assert sessions.claim_on(one, B) is None
    (status,) = sessions.latest(1, now=10.0)
    assert status == SessionStatus(one, A, 2, 10, 0, 1.0)


def test_a_turn_aside_is_a_turn_for_what_is_forgotten_first():
    sessions = Sessions(2)
    turn(sessions, "one")
    turn(sessions, "two")
    sessions.note_aside(SessionId("one"), prompt_tokens=1, matched_blocks=0, now=0.0)
    turn(sessions, "three")
    assert sessions.last_turn(SessionId("two")) is None
    assert sessions.last_turn(SessionId("one")) == LastTurn(A)


def test_a_conversation_that_was_compacted_is_the_main_prompt_again_before_long():
    sessions, one = Sessions(10), SessionId("one")
    turn(sessions, "one")
    asides = 0
    while sessions.is_aside(one, 10):
        sessions.note_aside(one, prompt_tokens=10, matched_blocks=0, now=0.0)
        asides += 1
    assert asides == 13


def test_a_session_that_is_not_known_has_no_claim_and_no_main_prompt():
    assert Sessions(1).claim(SessionId("s")) is None
    assert not Sessions(1).is_aside(SessionId("s"), 0)
