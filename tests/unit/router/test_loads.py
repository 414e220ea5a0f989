"""router/loads.py: what each node has yet to compute."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.session_id import NodeId
from router.loads import Loads

A, B = NodeId("a"), NodeId("b")


def test_a_node_without_turns_has_nothing_to_do():
    assert Loads(100.0).tokens(A, 0, 5.0) == 0
    assert len(Loads(100.0)) == 0


def test_what_was_placed_leaks_at_the_rate_of_prefill():
    loads = Loads(100.0)
    loads.add(A, 1000, 0.0)
    loads.add(A, 500, 2.0)
    assert loads.tokens(A, 0, 2.0) == pytest.approx(1300)
    assert loads.tokens(A, 0, 14.0) == pytest.approx(100)
    assert loads.tokens(A, 0, 99.0) == 0
    assert loads.tokens(B, 0, 2.0) == 0


def test_an_idle_time_is_not_saved_up():
    loads = Loads(100.0)
    loads.add(A, 100, 0.0)
    loads.add(A, 100, 1000.0)
    assert loads.tokens(A, 0, 1000.0) == pytest.approx(100)


def test_what_a_node_says_counts_where_it_is_more():
    loads = Loads(100.0)
    loads.add(A, 1000, 0.0)
    assert loads.tokens(A, 5000, 1.0) == 5000
    assert loads.tokens(A, 50, 1.0) == pytest.approx(900)


def test_a_node_that_is_forgotten_has_nothing_to_do():
    loads = Loads(100.0)
    loads.add(A, 1000, 0.0)
    loads.forget(A)
    loads.forget(B)
    assert loads.tokens(A, 0, 0.0) == 0
    assert len(loads) == 0


@given(
    st.lists(st.tuples(st.integers(-10, 10_000), st.floats(0, 1e6), st.floats(0, 100))),
    st.floats(0.1, 1e6),
)
def test_a_load_is_never_below_0_nor_above_what_was_placed(steps, rate):
    loads, now, placed = Loads(rate), 0.0, 0
    for tokens, gap_s, earlier_s in steps:
        now += gap_s
        placed += max(tokens, 0)
        loads.add(A, tokens, now)
        for at in (now, now + gap_s, now - earlier_s):
            assert loads.tokens(A, 0, at) >= 0
        assert loads.tokens(A, 0, now) <= placed + 1e-6 * (placed + rate * now + 1)
