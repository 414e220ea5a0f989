"""
Room that clients have reserved for copies which they write themselves. Pure.

A reservation is open, then being committed, then over; or it is given up, or its time ends.
Whichever comes first has its tickets, so that each is committed or aborted exactly once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cachenode.plans import WriteTicket
from hearthkv.core.errors import ReservationOverError

COUNT_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class _Reservation:
    tickets: tuple[WriteTicket, ...]
    size_bytes: int
    expires_at: float


class Reservations:
    """
    Keeps tickets by reservation, in order.

    Invariants (I3): there are at most `count_max` reservations, and their payloads have at most
    `bytes_max`, those that are being committed included.
    """

    def __init__(self, *, bytes_max: int, count_max: int = COUNT_MAX) -> None:
        self._bytes_max = bytes_max
        self._count_max = count_max
        self._open: dict[str, _Reservation] = {}
        self._committing: dict[str, _Reservation] = {}
        self._size_bytes = 0

    @property
    def room_bytes(self) -> int:
        """Payload bytes that one more reservation may have."""
        count = len(self._open) + len(self._committing)
        return self._bytes_max - self._size_bytes if count < self._count_max else 0

    def add(self, reservation_id: str, tickets: Sequence[WriteTicket], expires_at: float) -> None:
        """
        Open a reservation.

        Args:
            reservation_id: A fresh name that others can't guess.
            tickets: At least one; no more than `room_bytes` have room for.
            expires_at: When its time is over.
        """
        size_bytes = sum(ticket.target.size_bytes for ticket in tickets)
        assert tickets
        assert size_bytes <= self.room_bytes
        assert reservation_id not in self._open
        self._open[reservation_id] = _Reservation(tuple(tickets), size_bytes, expires_at)
        self._size_bytes += size_bytes

    def begin_commit(self, reservation_id: str, now: float) -> tuple[WriteTicket, ...]:
        """
        Hand a reservation's tickets out to be committed; nobody else gets them any more.

        Raises:
            ReservationOverError: If it was committed or given up, or its time is over.
        """
        reservation = self._open.get(reservation_id)
        if reservation is None or reservation.expires_at <= now:
            raise ReservationOverError(
                "reservation was committed or given up before, or its time is over; it must be "
                "committed once, within the time that came with it"
            )
        self._committing[reservation_id] = self._open.pop(reservation_id)
        return reservation.tickets

    def end_commit(self, reservation_id: str) -> None:
        """Let the room of a committed reservation be given to others."""
        self._size_bytes -= self._committing.pop(reservation_id).size_bytes

    def give_up(self, reservation_id: str) -> tuple[WriteTicket, ...]:
        """End a reservation and return its tickets; none if it is over or being committed."""
        reservation = self._open.pop(reservation_id, None)
        if reservation is None:
            return ()
        self._size_bytes -= reservation.size_bytes
        return reservation.tickets

    def expire(self, now: float) -> list[tuple[WriteTicket, ...]]:
        """End the reservations whose time is over, and return the tickets of each."""
        over = [name for name, open_one in self._open.items() if open_one.expires_at <= now]
        return [self.give_up(reservation_id) for reservation_id in over]
