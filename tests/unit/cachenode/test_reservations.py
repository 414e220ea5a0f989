"""Tests of `cachenode.reservations`: every ticket goes to one, and there is a bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachenode.plans import WriteTicket
from cachenode.reservations import Reservations
from hearthkv.core.errors import ReservationOverError
from tests.unit.cachenode.catalog_kit import BLOCK_BYTES, SPEC, ref

TIME_S = 30.0


def tickets_of(*numbers: int) -> tuple[WriteTicket, ...]:
    return tuple(WriteTicket(SPEC, ref(number), None) for number in numbers)


def new_reservations(*, blocks_max: int = 10, count_max: int = 10) -> Reservations:
    return Reservations(bytes_max=blocks_max * BLOCK_BYTES, count_max=count_max)


def test_a_commit_gets_the_tickets_in_order():
    reservations, tickets = new_reservations(), tickets_of(3, 1, 2)
    reservations.add("r", tickets, TIME_S)
    assert reservations.begin_commit("r", 0) == tickets


def test_a_reservation_is_committed_once():
    reservations = new_reservations()
    reservations.add("r", tickets_of(1), TIME_S)
    reservations.begin_commit("r", 0)
    with pytest.raises(ReservationOverError):
        reservations.begin_commit("r", 0)
    reservations.end_commit("r")
    with pytest.raises(ReservationOverError, match="must be committed once"):
        reservations.begin_commit("r", 0)


def test_an_unknown_reservation_is_over():
    reservations = new_reservations()
    with pytest.raises(ReservationOverError):
        reservations.begin_commit("r", 0)
    assert reservations.give_up("r") == ()


def test_its_time_ends_also_where_nobody_looked():
    reservations, tickets = new_reservations(), tickets_of(1)
    reservations.add("r", tickets, TIME_S)
    with pytest.raises(ReservationOverError):
        reservations.begin_commit("r", TIME_S)
    assert reservations.expire(TIME_S) == [tickets]


def test_only_those_expire_whose_time_is_over():
    reservations, early, late = new_reservations(), tickets_of(1, 2), tickets_of(3)
    reservations.add("late", late, TIME_S + 1)
    reservations.add("early", early, TIME_S)
    assert reservations.expire(TIME_S - 1) == []
    assert reservations.expire(TIME_S) == [early]
    assert reservations.begin_commit("late", TIME_S) == late


def test_a_commit_under_way_neither_expires_nor_is_given_up():
    reservations = new_reservations()
    reservations.add("r", tickets_of(1), TIME_S)
    reservations.begin_commit("r", 0)
    assert reservations.give_up("r") == ()
    assert reservations.expire(2 * TIME_S) == []


def test_what_was_given_up_is_not_committed():
    reservations, tickets = new_reservations(), tickets_of(1)
    reservations.add("r", tickets, TIME_S)
    assert reservations.give_up("r") == tickets
    assert reservations.give_up("r") == ()
    with pytest.raises(ReservationOverError):
        reservations.begin_commit("r", 0)


def test_room_comes_back_when_a_commit_ends_and_not_before():
    reservations = new_reservations(blocks_max=3)
    reservations.add("r", tickets_of(1, 2), TIME_S)
    assert reservations.room_bytes == BLOCK_BYTES
    reservations.begin_commit("r", 0)
    assert reservations.room_bytes == BLOCK_BYTES
    reservations.end_commit("r")
    assert reservations.room_bytes == 3 * BLOCK_BYTES


def test_there_are_not_too_many():
    reservations = new_reservations(count_max=2)
    reservations.add("a", tickets_of(1), TIME_S)
    reservations.begin_commit("a", 0)
    reservations.add("b", tickets_of(2), TIME_S)
    assert reservations.room_bytes == 0
    reservations.give_up("b")
    assert reservations.room_bytes == 9 * BLOCK_BYTES


@given(
    st.lists(st.tuples(st.sampled_from(["add", "begin", "end", "up", "expire"]), st.integers(0, 5)))
)
def test_every_ticket_goes_to_one_and_no_bound_is_passed_I3(steps):  # noqa: N802
    reservations, handed_out, added, now = new_reservations(blocks_max=6, count_max=4), [], [], 0
    committing: set[str] = set()
    for number, (verb, pick) in enumerate(steps):
        name = str(pick)
        if verb == "add" and reservations.room_bytes >= BLOCK_BYTES:
            tickets = tickets_of(number)
            reservations.add(f"{number}", tickets, now + pick)
            added.extend(tickets)
        elif verb == "begin":
            try:
                handed_out.extend(reservations.begin_commit(name, now))
                committing.add(name)
            except ReservationOverError:
                pass
        elif verb == "end" and committing:
            reservations.end_commit(committing.pop())
        elif verb == "up":
            handed_out.extend(reservations.give_up(name))
        else:
            now += 1
            handed_out.extend(ticket for over in reservations.expire(now) for ticket in over)
        assert 0 <= reservations.room_bytes <= 6 * BLOCK_BYTES
    handed_out.extend(ticket for over in reservations.expire(now + 10) for ticket in over)
    assert len(handed_out) == len(added)
    assert set(handed_out) == set(added)
    for name in committing:
        reservations.end_commit(name)
    assert reservations.room_bytes == 6 * BLOCK_BYTES
