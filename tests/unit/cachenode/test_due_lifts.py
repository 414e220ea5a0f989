"""Tests of `cachenode.due_lifts`."""

from cachenode.due_lifts import DueLifts
from hearthkv.core.session_id import SessionId

A, B, C = SessionId("a"), SessionId("b"), SessionId("c")


def test_a_session_is_due_at_each_of_its_times_and_once_where_it_missed_some():
    due = DueLifts()
    due.plan(A, (20.0, 0.0, 10.0))
    assert due.take(0) == [A]
    assert due.take(9) == []
    assert due.take(30) == [A]
    assert due.take(99) == []


def test_who_waited_longest_comes_first():
    due = DueLifts()
    due.plan(A, [3.0])
    due.plan(B, [1.0])
    due.plan(C, [9.0])
    assert due.take(5) == [B, A]


def test_a_new_plan_replaces_the_one_before():
    due = DueLifts()
    due.plan(A, [1.0])
    due.plan(A, [5.0])
    assert due.take(1) == []
    due.plan(A, [])
    assert due.take(9) == []


def test_what_is_cancelled_is_not_due():
    due = DueLifts()
    due.plan(A, [1.0])
    due.cancel(A)
    due.cancel(B)
    assert due.take(9) == []


def test_there_is_a_bound_and_place_again_below_it():
    due = DueLifts(sessions_max=1)
    due.plan(A, [1.0])
    due.plan(B, [1.0])
    assert due.take(1) == [A]
    due.plan(B, [1.0])
    assert due.take(1) == [B]
