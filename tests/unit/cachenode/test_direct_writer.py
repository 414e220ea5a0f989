"""Tests of `cachenode.direct_writer`: what two sides and a store can do to each other's plans."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from cachenode.direct_writer import DRAM_SHARE, GRACE_S, TTL_S, DirectWriter
from cachenode.tier_mover import TierMover
from hearthkv.core.block_io import DropBlocks, DropSession, WriteStart, WriteStatus
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.direct_path import Reservation, ReservedCopy, ReserveQuery, ThroughNode
from hearthkv.core.errors import BlockSizeError, ReservationOverError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier, TierUsage
from tests.direct_memory_store import DirectMemoryStore
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, STORED_BYTES, Parts, header_of, hold, parts_over, prompt

STORED, HELD = WriteStatus.STORED, WriteStatus.ALREADY_HELD
ORPHAN, AWAY = WriteStatus.PARENT_MISSING, WriteStatus.UNAVAILABLE
BLOCKS_MAX = 24  # of each tier; so seven may be reserved


class Bench:
    """A direct writer, its store, and short words for what a client does."""

    def __init__(self, parts: Parts, store: DirectMemoryStore, tasks: asyncio.TaskGroup) -> None:
        self.parts = parts
        self.store = store
        self.writer = DirectWriter(
            parts.catalog, parts.stores, clock=parts.clock, tasks=tasks, telemetry=parts.telemetry
        )
        self._mover = TierMover(parts.catalog, parts.stores, parts.telemetry)

    def reserve(
        self, keys: Sequence[bytes], parent_key: bytes = b"", session: str | None = None
    ) -> Reservation:
        start = WriteStart(SPEC, None if session is None else SessionId(session))
        return self.writer.reserve(query(keys, parent_key, start))

    def fill(self, keys: Sequence[bytes], reservation: Reservation) -> None:
        """Write what was reserved, as a client does that keeps to the contract."""
        before = b""
        for key, outcome in zip(keys, reservation.outcomes, strict=False):
            if isinstance(outcome, ReservedCopy):
                self.store.client_writes(key, outcome.sequence, before)
            before = key

    def filled(self, keys: Sequence[bytes], parent_key: bytes = b"") -> str:
        """Reserve and write, and return the reservation's name."""
        reservation = self.reserve(keys, parent_key)
        self.fill(keys, reservation)
        return reservation.reservation_id

    async def begin_commit(self, reservation_id: str) -> "asyncio.Task[list[WriteStatus]]":
        """Have a commit under way, which waits for the store."""
        self.store.gate = asyncio.Event()
        commit = asyncio.create_task(self.writer.commit(reservation_id))
        await self.store.is_confirming.wait()
        return commit

    def open_gate(self) -> None:
        assert self.store.gate is not None
        self.store.gate.set()

    def match(self, keys: Sequence[bytes]) -> int:
        return self.parts.catalog.match(SPEC.namespace_id, PackedKeys.join(keys)).total

    def dram(self) -> TierUsage:
        return self.parts.catalog.usage()[0]

    async def assert_is_clean(self, blocks: int) -> None:
        """Nothing is under way, and catalog and store agree on `blocks` blocks, to the byte."""
        await self._mover.work()
        usage = self.dram()
        assert (usage.reserved_bytes, usage.blocks) == (0, blocks)
        assert usage.used_bytes == blocks * STORED_BYTES == self.store.used_bytes
        assert self.store.reserved == {}

    def reservations(self, outcome: str) -> float:
        return self.parts.meters.value("cachenode_reservations_total", outcome=outcome)


def query(keys: Sequence[bytes], parent_key: bytes, start: WriteStart) -> ReserveQuery:
    checksums = tuple(header_of(key, b"").checksum for key in keys)
    return ReserveQuery(b"", start, PackedKeys.join(keys), parent_key, checksums)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    store = DirectMemoryStore()
    parts = parts_over({Tier.DRAM: store, Tier.SSD: MemoryStore(Tier.SSD)}, blocks_max=BLOCKS_MAX)
    async with asyncio.TaskGroup() as tasks:
        yield Bench(parts, store, tasks)


async def test_what_was_reserved_written_and_committed_is_held(bench: Bench):
    keys = prompt(3)
    reservation = bench.reserve(keys)
    assert reservation.outcomes == tuple(ReservedCopy(number, 0) for number in (1, 2, 3))
    assert reservation.ttl_s == TTL_S
    assert bench.dram().reserved_bytes == 3 * STORED_BYTES
    bench.fill(keys, reservation)
    assert await bench.writer.commit(reservation.reservation_id) == [STORED] * 3
    assert bench.match(keys) == 3
    assert bench.parts.meters.value("cachenode_writes_total", status="stored") == 3
    assert bench.parts.meters.value("cachenode_written_bytes_total") == 3 * SPEC.block_bytes
    assert bench.reservations("committed") == 1
    await bench.assert_is_clean(3)


async def test_the_server_of_a_copy_is_named(bench: Bench):
    (outcome,) = bench.reserve(prompt(1, name=1)).outcomes
    assert outcome == ReservedCopy(1, 1)


async def test_what_is_held_needs_no_room(bench: Bench):
    keys = prompt(4)
    await hold(bench.parts, keys[:2])
    reservation = bench.reserve(keys)
    assert reservation.outcomes[:2] == (HELD, HELD)
    bench.fill(keys, reservation)
    assert await bench.writer.commit(reservation.reservation_id) == [STORED] * 2
    assert bench.parts.meters.value("cachenode_writes_total", status="already_held") == 2
    await bench.assert_is_clean(4)


async def test_a_reservation_of_what_is_held_has_no_name(bench: Bench):
    keys = prompt(2)
    await hold(bench.parts, keys)
    assert bench.reserve(keys, session="s") == Reservation("", (HELD, HELD), TTL_S)
    assert bench.parts.catalog.drop(DropSession(SessionId("s"))) == 2


async def test_a_missing_parent_refuses_the_whole_run(bench: Bench):
    keys = prompt(3)
    assert bench.reserve(keys[1:], keys[0]).outcomes == (ORPHAN, ORPHAN)
    await bench.assert_is_clean(0)


async def test_blocks_that_only_the_ssd_has_room_for_go_through_the_node(bench: Bench):
    keys = prompt(3)
    bench.parts.catalog.set_trouble(Tier.DRAM, "is away")
    assert bench.reserve(keys) == Reservation("", (ThroughNode(),), TTL_S)
    assert bench.parts.catalog.usage()[1].reserved_bytes == 0


async def test_no_more_than_a_share_of_dram_is_reserved_I3(bench: Bench):  # noqa: N802
    keys = prompt(BLOCKS_MAX)
    first = bench.reserve(keys)
    assert isinstance(first.outcomes[-1], ThroughNode)
    blocks = len(first.outcomes) - 1
    assert blocks == bench.dram().limit_bytes // DRAM_SHARE // SPEC.block_bytes
    assert bench.dram().reserved_bytes == blocks * STORED_BYTES
    assert bench.reserve(prompt(1, name=1)).outcomes == (ThroughNode(),)
    await bench.writer.abort(first.reservation_id)
    assert isinstance(bench.reserve(prompt(1, name=1)).outcomes[0], ReservedCopy)


async def test_a_store_that_clients_can_not_write_to_is_left_to_the_node():
    parts = parts_over({Tier.DRAM: MemoryStore(Tier.DRAM)}, blocks_max=BLOCKS_MAX)
    async with asyncio.TaskGroup() as tasks:
        writer = DirectWriter(
            parts.catalog, parts.stores, clock=parts.clock, tasks=tasks, telemetry=parts.telemetry
        )
        reservation = writer.reserve(query(prompt(2), b"", WriteStart(SPEC, None)))
        assert reservation.outcomes == (ThroughNode(),)
        writer.expire()


async def test_a_copy_without_a_place_goes_through_the_node(bench: Bench):
    bench.store.locate = lambda refs: [None] * len(refs)  # type: ignore[method-assign]
    assert bench.reserve(prompt(2)).outcomes == (ThroughNode(),)


async def test_a_namespace_of_another_size_is_refused_and_nothing_is_reserved(bench: Bench):
    await hold(bench.parts, prompt(1))
    other = WriteStart(NamespaceSpec(SPEC.namespace_id, 16, 8), None)
    with pytest.raises(BlockSizeError):
        bench.writer.reserve(query(prompt(1, name=1), b"", other))
    await bench.assert_is_clean(1)


async def test_a_copy_that_was_not_written_is_unavailable_and_takes_what_hangs_on_it(bench: Bench):
    keys = prompt(4)
    reservation = bench.reserve(keys)
    bench.fill(keys, reservation)
    lost = next(name for name in bench.store.reserved if name[1] == keys[1])
    del bench.store.reserved[lost]
    statuses = await bench.writer.commit(reservation.reservation_id)
    assert statuses == [STORED, AWAY, ORPHAN, ORPHAN]
    assert bench.dram().trouble == ""  # it is the client's doing
    await bench.assert_is_clean(1)


async def test_a_half_written_copy_is_erased(bench: Bench):
    keys = prompt(1)
    reservation_id = bench.filled(keys)
    (name,) = bench.store.reserved
    bench.store.reserved[name] = bench.store.reserved[name][:-1]
    assert await bench.writer.commit(reservation_id) == [AWAY]
    await bench.assert_is_clean(0)


async def test_a_commit_is_not_taken_twice(bench: Bench):
    reservation_id = bench.filled(prompt(1))
    await bench.writer.commit(reservation_id)
    with pytest.raises(ReservationOverError):
        await bench.writer.commit(reservation_id)
    await bench.assert_is_clean(1)


async def test_a_second_commit_does_not_wait_for_the_first(bench: Bench):
    reservation_id = bench.filled(prompt(1))
    first = await bench.begin_commit(reservation_id)
    with pytest.raises(ReservationOverError):
        await bench.writer.commit(reservation_id)
    bench.open_gate()
    assert await first == [STORED]


async def test_a_commit_within_the_grace_is_taken(bench: Bench):
    reservation_id = bench.filled(prompt(1))
    bench.parts.clock.advance(TTL_S + GRACE_S - 1)
    bench.writer.expire()
    assert await bench.writer.commit(reservation_id) == [STORED]


async def test_a_commit_after_the_expiry_holds_nothing(bench: Bench):
    keys = prompt(2)
    reservation_id = bench.filled(keys)
    bench.parts.clock.advance(TTL_S + GRACE_S)
    with pytest.raises(ReservationOverError):
        await bench.writer.commit(reservation_id)
    assert bench.dram().reserved_bytes == 2 * STORED_BYTES  # until they are erased
    bench.writer.expire()
    await drained()
    assert bench.reservations("expired") == 1
    assert bench.match(keys) == 0
    await bench.assert_is_clean(0)


async def test_what_was_given_up_is_erased_and_its_room_is_free(bench: Bench):
    reservation_id = bench.filled(prompt(2))
    await bench.writer.abort(reservation_id)
    assert bench.reservations("given_up") == 1
    await bench.assert_is_clean(0)
    with pytest.raises(ReservationOverError):
        await bench.writer.commit(reservation_id)
    await bench.writer.abort(reservation_id)
    await bench.writer.abort("never was")
    assert bench.reservations("given_up") == 1


async def test_an_abort_during_the_commit_comes_too_late(bench: Bench):
    reservation_id = bench.filled(prompt(2))
    commit = await bench.begin_commit(reservation_id)
    await bench.writer.abort(reservation_id)
    bench.open_gate()
    assert await commit == [STORED] * 2
    await bench.assert_is_clean(2)


async def test_a_commit_goes_on_when_its_caller_leaves(bench: Bench):
    keys = prompt(3)
    commit = await bench.begin_commit(bench.filled(keys))
    commit.cancel()
    with pytest.raises(asyncio.CancelledError):
        await commit
    assert bench.match(keys) == 0
    bench.open_gate()
    await drained()
    assert bench.match(keys) == 3
    await bench.assert_is_clean(3)


async def test_of_two_reservations_of_one_block_the_first_commit_wins(bench: Bench):
    keys = prompt(2)
    early, late = bench.filled(keys), bench.filled(keys)
    assert len(bench.store.reserved) == 4
    assert await bench.writer.commit(late) == [STORED] * 2
    assert await bench.writer.commit(early) == [HELD] * 2
    await bench.assert_is_clean(2)


async def test_a_reservation_may_build_on_another_that_is_committed_first(bench: Bench):
    keys = prompt(4)
    first, second = bench.filled(keys[:2]), bench.filled(keys[2:], keys[1])
    assert await bench.writer.commit(first) == [STORED] * 2
    assert await bench.writer.commit(second) == [STORED] * 2
    await bench.assert_is_clean(4)


async def test_a_reservation_that_builds_on_one_given_up_is_orphaned(bench: Bench):
    keys = prompt(3)
    first, second = bench.filled(keys[:1]), bench.filled(keys[1:], keys[0])
    await bench.writer.abort(first)
    assert await bench.writer.commit(second) == [ORPHAN] * 2
    await bench.assert_is_clean(0)


async def test_a_parent_is_not_evicted_before_the_commit(bench: Bench):
    keys = prompt(2)
    await hold(bench.parts, keys[:1])
    reservation_id = bench.filled(keys[1:], keys[0])
    bench.parts.catalog.set_trouble(Tier.SSD, "is away")  # so that DRAM drops what it can
    for name in range(1, BLOCKS_MAX - 1):
        await hold(bench.parts, prompt(1, name))
    assert bench.parts.catalog.plan_demotions().evicted_blocks > 0
    assert await bench.writer.commit(reservation_id) == [STORED]
    assert bench.match(keys) == 2


async def test_a_parent_that_was_dropped_meanwhile_orphans_the_run(bench: Bench):
    keys = prompt(3)
    await hold(bench.parts, keys[:1])
    commit = await bench.begin_commit(bench.filled(keys[1:], keys[0]))
    bench.parts.catalog.drop(DropBlocks(SPEC.namespace_id, PackedKeys.join(keys[:1])))
    bench.open_gate()
    assert await commit == [ORPHAN] * 2
    await bench.assert_is_clean(0)


async def test_what_was_written_to_a_store_that_was_emptied_is_not_held(bench: Bench):
    reservation_id = bench.filled(prompt(2))
    bench.store.empty()
    assert await bench.writer.commit(reservation_id) == [AWAY] * 2
    await bench.assert_is_clean(0)


@pytest.mark.parametrize("is_under_way", [False, True], ids=["before", "during"])
async def test_a_tier_that_is_forgotten_before_the_commit_is_done_voids_it(
    bench: Bench, is_under_way: bool
):
    reservation_id = bench.filled(prompt(2))
    commit = await bench.begin_commit(reservation_id) if is_under_way else None
    bench.parts.catalog.forget_tier(Tier.DRAM)
    if commit is None:
        commit = asyncio.create_task(bench.writer.commit(reservation_id))
    else:
        bench.open_gate()
    assert await commit == [AWAY] * 2
    await bench.assert_is_clean(0)


async def test_a_store_that_does_not_answer_holds_nothing_and_is_in_trouble(bench: Bench):
    reservation_id = bench.filled(prompt(2))
    bench.store.break_down()
    assert await bench.writer.commit(reservation_id) == [AWAY] * 2
    assert bench.dram().trouble == "the store does not answer"
    assert bench.dram().used_bytes == 2 * STORED_BYTES  # for nobody knows what is there
    bench.store.heal()
    bench.store.reserved.clear()  # their time to live is over
    bench.parts.stores.heal(Tier.DRAM)
    await bench.assert_is_clean(0)


async def test_a_confirmation_without_an_answer_leaves_nothing_behind(bench: Bench):
    reservation_id = bench.filled(prompt(2))
    bench.store.loses_answers = True
    assert await bench.writer.commit(reservation_id) == [AWAY] * 2
    assert len(bench.store.stored) == 2
    bench.parts.stores.heal(Tier.DRAM)
    await bench.assert_is_clean(0)


async def test_room_is_free_again_when_the_commit_is_done(bench: Bench):
    keys = prompt(BLOCKS_MAX)
    first = bench.reserve(keys)
    bench.fill(keys, first)
    commit = await bench.begin_commit(first.reservation_id)
    assert bench.reserve(prompt(1, name=1)).outcomes == (ThroughNode(),)
    bench.open_gate()
    await commit
    assert isinstance(bench.reserve(prompt(1, name=1)).outcomes[0], ReservedCopy)


async def drained() -> None:
    """Let all tasks run that need no more than the event loop."""
    for _ in range(10):
        await asyncio.sleep(0)
