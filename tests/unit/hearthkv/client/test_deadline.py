"""Tests of hearthkv/client/deadline.py."""

from hearthkv.client.deadline import Deadline


def test_what_is_left_shrinks_to_nothing_and_not_below():
    deadline = Deadline.after(10.0, 2.0)
    assert [deadline.left_s(now) for now in (10.0, 11.5, 12.0, 99.0)] == [2.0, 0.5, 0.0, 0.0]


def test_a_wait_is_the_stall_or_what_is_left():
    deadline = Deadline.after(0.0, 3.0)
    assert deadline.wait_s(0.0, 1.0) == 1.0
    assert deadline.wait_s(2.5, 1.0) == 0.5
    assert deadline.wait_s(4.0, 1.0) == 0.0
