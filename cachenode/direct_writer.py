"""
The direct write: room is reserved, a client on this host fills it, and the node holds it.

Until its commit a copy lies under a reserved name, with a time to live. The node counts its bytes
from the reservation on until they are held, or erased, or can't come any more (I3); and it holds
only what the store has confirmed to have (I4).
"""

import asyncio
import secrets
from collections.abc import Coroutine, Sequence
from typing import Final, TypeVar

from cachenode.catalog import Catalog
from cachenode.events import BlockWritten, ReservationEnd, ReservationEnded
from cachenode.plans import WriteTicket
from cachenode.reservations import Reservations
from cachenode.store import DirectStore
from cachenode.tier_stores import TierStores
from hearthkv.core.block_io import WriteStatus
from hearthkv.core.clock import Clock
from hearthkv.core.direct_path import (
    RedisAddress,
    Reservation,
    ReservedCopy,
    ReserveQuery,
    ThroughNode,
)
from hearthkv.core.errors import BlockLostError, StoreError
from hearthkv.core.tier import Tier
from hearthkv.telemetry import Telemetry

TTL_S: Final = 30.0
"""Seconds that a client has to write and commit. A client that died costs its room for so long."""

GRACE_S: Final = 10.0
"""Seconds for which the node keeps a reservation beyond that: for calls that are on their way."""

DRAM_SHARE: Final = 4
"""Payloads may reserve one part in so many of the DRAM tier: clients that reserve and do not write
can't keep others from the rest."""

Outcome = TypeVar("Outcome")


class DirectWriter:
    """
    Reserves room, and commits what clients wrote there.

    Args:
        tasks: Owns commits and aborts: they end, though their caller leaves.
    """

    def __init__(
        self,
        catalog: Catalog,
        stores: TierStores,
        *,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        telemetry: Telemetry,
    ) -> None:
        self._catalog = catalog
        self._stores = stores
        self._clock = clock
        self._tasks = tasks
        self._telemetry = telemetry
        limit_bytes = sum(usage.limit_bytes for usage in catalog.usage() if usage.tier is Tier.DRAM)
        self._reservations = Reservations(bytes_max=limit_bytes // DRAM_SHARE)
        store = stores.by_tier.get(Tier.DRAM)
        self._store = store if isinstance(store, DirectStore) else None

    def reserve(self, query: ReserveQuery) -> Reservation:
        """
        Keep room in DRAM for blocks that follow each other, as far as there is any.

        Raises:
            BlockSizeError: If the namespace is known with another size.
        """
        spec = query.start.spec
        self._catalog.check_namespace(spec)
        tickets: list[WriteTicket] = []
        outcomes: list[ReservedCopy | WriteStatus | ThroughNode] = []
        last_held: bytes | None = None
        parent_key = query.parent_key
        for key, checksum in zip(query.keys, query.checksums, strict=True):
            planned = self._catalog.plan_write(
                spec,
                key=key,
                parent_key=parent_key,
                size_bytes=spec.block_bytes,
                checksum=checksum,
                session_id=query.start.session_id,
            )
            if isinstance(planned, WriteTicket):
                outcome = self._admit(planned, len(tickets))
                outcomes.append(outcome)
                if isinstance(outcome, ThroughNode):
                    break
                tickets.append(planned)
            else:
                outcomes.append(planned)
                self._telemetry.emit(BlockWritten(planned, spec.block_bytes))
                last_held = key if planned.is_held else last_held
            parent_key = key
        if last_held is not None:
            self._catalog.touch(spec.namespace_id, last_held)
        self._stores.work.set()
        return Reservation(self._open(tickets), tuple(outcomes), TTL_S)

    async def commit(self, reservation_id: str) -> list[WriteStatus]:
        """
        Hold the blocks of a reservation; return what became of each copy, in its order.

        Raises:
            ReservationOverError: If it was committed or given up, or its time is over.
        """
        tickets = self._reservations.begin_commit(reservation_id, self._clock.now())
        return await self._to_its_end(self._commit(reservation_id, tickets))

    async def abort(self, reservation_id: str) -> None:
        """Give a reservation up; one that is over, or being committed, is no matter."""
        tickets = self._reservations.give_up(reservation_id)
        if tickets:
            self._telemetry.emit(ReservationEnded(ReservationEnd.GIVEN_UP, len(tickets)))
            await self._to_its_end(self._give_up(tickets))

    def expire(self) -> None:
        """Have the reservations given up whose time is over."""
        for tickets in self._reservations.expire(self._clock.now()):
            self._telemetry.emit(ReservationEnded(ReservationEnd.EXPIRED, len(tickets)))
            self._tasks.create_task(self._give_up(tickets))

    def _admit(self, ticket: WriteTicket, copies: int) -> ReservedCopy | ThroughNode:
        """Let a client write to a ticket's target, if it can; else cancel the ticket."""
        target = ticket.target
        has_room = (copies + 1) * target.size_bytes <= self._reservations.room_bytes
        if self._store is not None and target.tier is Tier.DRAM and has_room:
            (address,) = self._store.locate([target])
            if isinstance(address, RedisAddress):
                return ReservedCopy(target.sequence, address.server)
        self._catalog.cancel_write(ticket)
        return ThroughNode()

    def _open(self, tickets: Sequence[WriteTicket]) -> str:
        if not tickets:
            return ""
        reservation_id = secrets.token_hex(16)
        self._reservations.add(reservation_id, tickets, self._clock.now() + TTL_S + GRACE_S)
        return reservation_id

    async def _commit(
        self, reservation_id: str, tickets: Sequence[WriteTicket]
    ) -> list[WriteStatus]:
        assert self._store is not None
        outcomes = await self._store.confirm([ticket.target for ticket in tickets])
        statuses: list[WriteStatus] = []
        failed: list[WriteTicket] = []
        # No await in here: what a reservation brings is held at once, parents first.
        for ticket, outcome in zip(tickets, outcomes, strict=True):
            if outcome is None:
                statuses.append(self._catalog.commit_write(ticket))
            else:
                failed.append(ticket)
                statuses.append(WriteStatus.UNAVAILABLE)
                self._note(outcome)
        self._report(tickets, statuses)
        if failed:
            await self._give_up(failed)
        self._reservations.end_commit(reservation_id)
        return statuses

    def _report(self, tickets: Sequence[WriteTicket], statuses: Sequence[WriteStatus]) -> None:
        for ticket, status in zip(tickets, statuses, strict=True):
            self._telemetry.emit(BlockWritten(status, ticket.target.size_bytes))
        self._telemetry.emit(ReservationEnded(ReservationEnd.COMMITTED, len(tickets)))
        held = [
            ticket.target
            for ticket, status in zip(tickets, statuses, strict=True)
            if status.is_held
        ]
        if held:
            self._catalog.touch(held[-1].namespace_id, held[-1].key)
        self._stores.work.set()

    async def _give_up(self, tickets: Sequence[WriteTicket]) -> None:
        """Erase what clients may have written, and only then let the bytes be counted as free."""
        assert self._store is not None
        try:
            await self._store.discard([ticket.target for ticket in tickets])
        except StoreError as error:
            self._note(error)  # what is there ends with its time to live
        finally:
            for ticket in tickets:
                self._catalog.abort_write(ticket)
            self._stores.work.set()

    def _note(self, error: StoreError) -> None:
        """Doubt the store, unless it is just a client that did not write."""
        if not isinstance(error, BlockLostError):
            self._stores.note(Tier.DRAM, error)

    async def _to_its_end(self, work: Coroutine[None, None, Outcome]) -> Outcome:
        """Wait for `work`, which goes on where the waiting is cancelled."""
        return await asyncio.shield(self._tasks.create_task(work))
