"""Tests of `cachenode.moved_sessions`."""

from cachenode.moved_sessions import TAKEN_MAX, MovedSessions
from hearthkv.core.routing import SessionMoved
from hearthkv.core.session_id import NodeId, SessionId


def added(*names: str, sessions_max: int = 100) -> MovedSessions:
    moved = MovedSessions(sessions_max)
    for name in names:
        moved.add(SessionId(name), NodeId("n"))
    return moved


def test_moves_are_told_in_order_and_once():
    moved = added("a", "b")
    listener = moved.listen()
    listener.open()
    assert listener.is_behind
    told = listener.next()
    assert told == [
        (1, SessionMoved(SessionId("a"), NodeId("n"))),
        (2, SessionMoved(SessionId("b"), NodeId("n"))),
    ]
    listener.told(1)
    assert [number for number, _ in listener.next()] == [2]
    listener.told(2)
    assert listener.next() == []
    assert moved.is_told


def test_a_session_that_moves_again_is_told_again():
    moved = added("a", "b", "a")
    assert [number for number, _ in moved.after(0)] == [2, 3]


def test_a_new_stream_is_told_everything():
    moved = added("a")
    listener = moved.listen()
    listener.open()
    listener.told(1)
    listener.close()
    listener.open()
    assert listener.is_behind


def test_a_router_without_a_stream_is_not_waited_for():
    moved = added("a")
    listener = moved.listen()
    assert moved.is_told
    listener.open()
    assert not moved.is_told
    listener.close()
    assert moved.is_told


def test_there_is_a_bound_for_all_and_for_one_round():
    moved = added(*map(str, range(TAKEN_MAX + 50)), sessions_max=TAKEN_MAX + 10)
    assert len(moved.after(0)) == TAKEN_MAX
    assert moved.after(0)[0][0] == 41


def test_a_node_that_stays_takes_back_what_it_said():
    moved = added("a")
    listener = moved.listen()
    listener.open()
    moved.clear()
    assert listener.next() == []
    assert moved.is_told
