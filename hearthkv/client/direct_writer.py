"""
Writes blocks into a node's stores by itself: reserve, write, commit. Not pure.

What was reserved and not committed vanishes by itself, from the store and from the node's
account; so a write that is cancelled leaves it at that.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hearthkv.client.attachments import Attachments
from hearthkv.client.deadline import Deadline
from hearthkv.client.direct_calls import is_stale
from hearthkv.client.direct_stores import DirectStores
from hearthkv.client.save_queue import QueuedBlock
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.block_io import WriteStart, WriteStatus
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.direct_path import (
    RESERVED_BLOCKS_MAX,
    Reservation,
    ReservedCopy,
    ReserveQuery,
    ThroughNode,
)
from hearthkv.core.errors import (
    DirectPathError,
    HearthKVError,
    PeerContractError,
    PeerError,
    PeerTimeoutError,
    PeerUnreachableError,
    StoreError,
    StoreFullError,
)
from hearthkv.datapath.redis_blocks import NamedWrite, write_outcome, write_request
from hearthkv.datapath.resp_wire import Request


@dataclass(frozen=True, slots=True)
class Upload:
    """A block that is to be written, with its checksum."""

    block: QueuedBlock
    checksum: int


class DirectWriter:
    """The direct writes of one client."""

    def __init__(self, attachments: Attachments, *, stall_s: float) -> None:
        self._attachments = attachments
        self._stall_s = stall_s

    async def write(
        self, address: str, start: WriteStart, uploads: Sequence[Upload], deadline: Deadline
    ) -> list[WriteStatus]:
        """
        Write leading blocks of a batch; the caller sends the others through the node.

        Args:
            address: The node's.
            start: Namespace and session.
            uploads: Neighbours, parents first.
            deadline: When to give up.

        Returns:
            What became of the first blocks, as far as they went this way; perhaps of none.

        Raises:
            PeerUnreachableError, PeerTimeoutError: If the node itself does not answer.
        """
        statuses: list[WriteStatus] = []
        stores = await self._attachments.stores(address, deadline)
        if stores is None:
            return statuses
        for at in range(0, len(uploads), RESERVED_BLOCKS_MAX):
            part = uploads[at : at + RESERVED_BLOCKS_MAX]
            with stores.in_use():
                written = await self._write_part(stores, start, part, deadline)
            statuses += written
            if len(written) < len(part):
                break
        return statuses

    async def _write_part(
        self,
        stores: DirectStores,
        start: WriteStart,
        uploads: Sequence[Upload],
        deadline: Deadline,
    ) -> list[WriteStatus]:
        query = ReserveQuery(
            proof=stores.proof,
            start=start,
            keys=PackedKeys.join([upload.block.key for upload in uploads]),
            parent_key=uploads[0].block.parent_key,
            checksums=tuple(upload.checksum for upload in uploads),
        )
        try:
            reservation = await stores.node.reserve(query, deadline)
            if not reservation.reservation_id:
                return _merged(reservation, [])
            copies = list(_copies(stores, start, uploads, reservation))
            if await self._store_all(stores, copies, reservation, deadline):
                held = await stores.node.commit(
                    stores.proof, reservation.reservation_id, len(copies), deadline
                )
                return _merged(reservation, held)
        except (PeerTimeoutError, PeerUnreachableError):
            raise
        except PeerError as error:
            if is_stale(error):
                self._attachments.forget(stores)
            else:
                self._attachments.refuse(stores, error)
        return []

    async def _store_all(
        self,
        stores: DirectStores,
        copies: Sequence["_Copy"],
        reservation: Reservation,
        deadline: Deadline,
    ) -> bool:
        """Put copies into their stores; where one is not taken, give all of them up."""
        try:
            await self._store(stores, copies, deadline)
        except StoreFullError:
            is_stored = False  # the node sees it too, and what is full is not broken
        except HearthKVError as error:
            is_stored = False
            self._attachments.refuse(stores, error)
        else:
            return True
        with suppress(PeerError):
            await stores.node.abort(stores.proof, reservation.reservation_id, deadline)
        return is_stored

    async def _store(
        self,
        stores: DirectStores,
        copies: Sequence["_Copy"],
        deadline: Deadline,
    ) -> None:
        wait_s = deadline.wait_s(stores.node.calls.clock.now(), self._stall_s)
        try:
            async with asyncio.timeout(wait_s):
                for server in sorted({copy.server for copy in copies}):
                    await _write(stores, server, [c.write for c in copies if c.server == server])
        except TimeoutError:
            raise DirectPathError(f"stores did not take a batch within {wait_s:.3g} s") from None
        except OSError as error:
            raise DirectPathError(f"store can't be reached: {error}") from error


@dataclass(frozen=True, slots=True)
class _Copy:
    server: int
    write: NamedWrite


def _copies(
    stores: DirectStores, start: WriteStart, uploads: Sequence[Upload], reservation: Reservation
) -> Iterator[_Copy]:
    """The copies that are to be written; raises PeerContractError."""
    if len(reservation.outcomes) > len(uploads):
        raise PeerContractError(
            f"reservation has {len(reservation.outcomes)} outcomes, must have <= {len(uploads)}"
        )
    ttl_ms = round(reservation.ttl_s * 1000)
    if ttl_ms < 1:
        raise PeerContractError(f"ttl is {reservation.ttl_s:g} s, must be 0.001 s at least")
    spec = start.spec
    for upload, outcome in zip(uploads, reservation.outcomes, strict=False):
        if not isinstance(outcome, ReservedCopy):
            continue
        if outcome.server >= len(stores.places):
            raise PeerContractError(
                f"copy goes to server {outcome.server}, must be under {len(stores.places)}"
            )
        block = upload.block
        frame = BlockFrame(spec, block.key, block.parent_key, upload.checksum, outcome.sequence)
        name = stores.names.reserved(spec.namespace_id, block.key, outcome.sequence)
        yield _Copy(outcome.server, NamedWrite(name, frame, block.payload, ttl_ms))


async def _write(stores: DirectStores, server: int, writes: Sequence[NamedWrite]) -> None:
    """Write to one server; raises OSError, RespError or StoreError."""
    place = stores.places[server]
    failures: list[StoreError] = []

    def settle(_: int, request: Request) -> None:
        error = write_outcome(place, request)
        if error is not None:
            failures.append(error)

    await stores.pools[server].run([write_request(write) for write in writes], settle)
    if failures:
        raise failures[0]


def _merged(reservation: Reservation, held: Sequence[WriteStatus]) -> list[WriteStatus]:
    """
    Return what became of the blocks, up to the first that has to go through the node.

    A copy that the node did not find in its store is one of those.
    """
    left = iter(held)
    statuses: list[WriteStatus] = []
    for outcome in reservation.outcomes:
        if isinstance(outcome, ThroughNode):
            break
        status = next(left, None) if isinstance(outcome, ReservedCopy) else outcome
        if status is None or status is WriteStatus.UNAVAILABLE:
            break
        statuses.append(status)
    return statuses
