"""Tests of `cachenode.turn_loads`."""

from hypothesis import given
from hypothesis import strategies as st

from cachenode.turn_loads import TURN_S, TurnLoads
from hearthkv.core.session_id import SessionId

S, T = SessionId("s"), SessionId("t")


def ask(loads: TurnLoads, session: SessionId, asked: int, held: int, now: float = 0.0) -> None:
    loads.ask(session, asked_blocks=asked, held_blocks=held, block_size=16, now=now)


def test_what_is_not_held_is_to_be_computed():
    loads = TurnLoads()
    ask(loads, S, 10, 4)
    ask(loads, T, 3, 3)
    assert loads.tokens(0) == 6 * 16
    assert loads.turns(0) == 2
    assert loads.is_under_way(S, 0)
    assert not loads.is_under_way(S, TURN_S)


def test_the_end_of_a_turn_ends_its_load():
    loads = TurnLoads()
    ask(loads, S, 10, 4)
    loads.end(S)
    loads.end(T)
    assert (loads.tokens(0), loads.turns(0)) == (0, 0)


def test_a_read_of_the_held_part_does_not_make_the_prompt_shorter():
    loads = TurnLoads()
    ask(loads, S, 10, 4)
    ask(loads, S, 4, 4)
    assert loads.tokens(0) == 6 * 16


def test_blocks_that_are_written_were_computed():
    loads = TurnLoads()
    ask(loads, S, 10, 4)
    loads.compute(S, 5)
    assert loads.tokens(0) == 16
    loads.compute(S, 5)
    loads.compute(T, 5)
    assert loads.tokens(0) == 0


def test_a_turn_of_another_block_size_is_another_turn():
    loads = TurnLoads()
    ask(loads, S, 10, 4)
    loads.ask(S, asked_blocks=2, held_blocks=1, block_size=32, now=0)
    assert loads.tokens(0) == 32


def test_a_turn_whose_end_nobody_tells_is_over_after_a_while():
    loads = TurnLoads()
    ask(loads, S, 10, 0)
    ask(loads, T, 1, 0, now=1.0)
    assert loads.tokens(TURN_S - 0.1) == 11 * 16
    assert loads.tokens(TURN_S) == 16
    ask(loads, T, 1, 0, now=TURN_S)
    assert loads.tokens(TURN_S + 1) == 16


def test_of_too_many_sessions_the_oldest_is_forgotten():
    loads = TurnLoads(sessions_max=2)
    for session, blocks in ((S, 1), (T, 2), (SessionId("u"), 4)):
        ask(loads, session, blocks, 0)
    assert loads.tokens(0) == 6 * 16


SESSION = st.sampled_from(["a", "b", "c"]).map(SessionId)
CALLS = st.lists(
    st.tuples(st.just("ask"), SESSION, st.integers(0, 9), st.integers(0, 9))
    | st.tuples(st.just("compute"), SESSION, st.integers(0, 9), st.just(0))
    | st.tuples(st.just("end"), SESSION, st.just(0), st.just(0))
)


@given(CALLS)
def test_the_sum_is_never_negative_and_nothing_is_left_behind(calls):
    loads = TurnLoads(sessions_max=2)
    for kind, session, first, second in calls:
        if kind == "ask":
            ask(loads, session, first, second)
        elif kind == "compute":
            loads.compute(session, first)
        else:
            loads.end(session)
        assert loads.tokens(0) >= 0
        assert loads.turns(0) <= 2
    assert loads.tokens(TURN_S) == 0
