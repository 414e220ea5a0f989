"""Tests of `cachenode.node`: its promises, over stores in memory that fail when told to."""

import asyncio
import logging
from contextlib import aclosing

import pytest

from cachenode.direct_writer import GRACE_S, TTL_S
from cachenode.node import MEASURE_S
from cachenode.tier_stores import FULL_S
from hearthkv.core.block_io import (
    BlockChunk,
    DropBlocks,
    PinQuery,
    ReadEnd,
    ReadQuery,
    WriteStart,
    WriteStatus,
)
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.clock import ManualClock
from hearthkv.core.direct_path import LocateQuery, ReservedCopy, ReserveQuery
from hearthkv.core.errors import BlockSizeError
from hearthkv.core.tier import Tier
from tests.direct_memory_store import DirectMemoryStore
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, STORED_BYTES, header_of, open_node, payload_of, prompt

STORED, HELD = WriteStatus.STORED, WriteStatus.ALREADY_HELD


@pytest.fixture
def dram() -> MemoryStore:
    return MemoryStore(Tier.DRAM)


@pytest.fixture
def ssd() -> MemoryStore:
    return MemoryStore(Tier.SSD)


@pytest.fixture
def stores(dram: MemoryStore, ssd: MemoryStore) -> dict[Tier, MemoryStore]:
    return {Tier.DRAM: dram, Tier.SSD: ssd}


@pytest.mark.parametrize("is_parallel_read", [True, False], ids=["parallel", "serial"])
async def test_what_was_written_is_read_in_order(stores, is_parallel_read: bool):
    keys = prompt(20)
    async with open_node(stores, is_parallel_read=is_parallel_read) as rig:
        assert await rig.write(keys) == [STORED] * 20
        assert await rig.read(keys) == (20, ReadEnd.COMPLETE)
        assert await rig.read([*keys, *prompt(1, name=1)]) == (20, ReadEnd.MISS)


async def test_right_bytes_or_none_I1(stores, dram: MemoryStore):  # noqa: N802
    keys = prompt(6)
    async with open_node(stores) as rig:
        await rig.write(keys)
        damaged = next(name for name in dram.stored if name[1] == keys[3])
        stored = bytearray(dram.stored[damaged])
        stored[-1] ^= 1
        dram.stored[damaged] = bytes(stored)
        assert await rig.read(keys) == (3, ReadEnd.LOST)
        assert rig.match(keys) == 3  # the block is dropped, and what hangs on it
        assert rig.meters.value("cachenode_lost_blocks_total", cause="bad_bytes") == 3
        assert await rig.read(keys) == (3, ReadEnd.MISS)
        await rig.node.settle()
        assert dram.used_bytes == 3 * STORED_BYTES == rig.usage(Tier.DRAM).used_bytes


async def test_blocks_move_down_above_the_threshold_and_the_cache_goes_on(stores, dram, ssd):
    async with open_node(stores, dram_blocks=10, ssd_blocks=40) as rig:
        for name in range(4):
            assert await rig.write_slowly(prompt(5, name)) == [STORED] * 5
        in_dram, on_ssd = rig.blocks()
        assert (in_dram + on_ssd, in_dram) == (20, 8)
        assert (len(dram.stored), len(ssd.stored)) == (in_dram, on_ssd)
        for name in range(4):
            assert await rig.read(prompt(5, name)) == (5, ReadEnd.COMPLETE)
        assert rig.meters.value("cachenode_demoted_blocks_total") == on_ssd


async def test_the_coldest_tails_leave_a_full_cache(stores, dram, ssd):
    async with open_node(stores, dram_blocks=10, ssd_blocks=10) as rig:
        for name in range(6):
            assert await rig.write_slowly(prompt(4, name)) == [STORED] * 4
        assert await rig.read(prompt(4, name=5)) == (4, ReadEnd.COMPLETE)
        assert rig.match(prompt(4, name=0)) == 0
        assert rig.meters.value("cachenode_evicted_blocks_total") > 0
        assert dram.used_bytes == rig.usage(Tier.DRAM).used_bytes <= 10 * STORED_BYTES
        assert ssd.used_bytes == rig.usage(Tier.SSD).used_bytes <= 10 * STORED_BYTES


async def test_concurrent_writers_stay_within_the_limits_I3(stores, dram, ssd):  # noqa: N802
    async with open_node(stores, dram_blocks=20, ssd_blocks=20) as rig:
        async with asyncio.TaskGroup() as tasks:
            writes = [tasks.create_task(rig.write(prompt(12, name))) for name in range(8)]
        refused = {WriteStatus.NO_ROOM, WriteStatus.PARENT_MISSING}
        assert {status for write in writes for status in write.result()} <= {STORED, *refused}
        await rig.node.settle()
        for store in (dram, ssd):
            usage = rig.usage(store.tier)
            assert store.used_bytes == usage.used_bytes <= usage.limit_bytes
            assert usage.reserved_bytes == 0


async def test_two_writers_of_one_prompt_store_it_once(stores, dram: MemoryStore):
    keys = prompt(10)
    async with open_node(stores) as rig:
        async with asyncio.TaskGroup() as tasks:
            writes = [tasks.create_task(rig.write(keys)) for _ in range(2)]
        assert all(status.is_held for write in writes for status in write.result())
        await rig.node.settle()
        assert dram.used_bytes == 10 * STORED_BYTES == rig.usage(Tier.DRAM).used_bytes


async def test_pinned_blocks_leave_no_room(stores):
    keys = prompt(10)
    async with open_node(stores, dram_blocks=10, ssd_blocks=0) as rig:
        await rig.write(keys[:8])
        pinned = rig.node.pin(PinQuery(SPEC.namespace_id, PackedKeys.join(keys), 60))
        assert pinned.blocks == 8
        assert await rig.write(prompt(3, name=1)) == [STORED, STORED, WriteStatus.NO_ROOM]
        assert rig.node.unpin(pinned.pin_id) == 8


async def test_a_pin_ends_with_its_time(stores):
    clock = ManualClock()
    async with open_node(stores, clock=clock) as rig:
        await rig.write(prompt(2))
        rig.node.pin(PinQuery(SPEC.namespace_id, PackedKeys.join(prompt(2)), 60))
        clock.advance(59)
        rig.node.tick()
        assert rig.node.describe().pins == 1
        clock.advance(2)
        rig.node.tick()
        assert rig.node.describe().pins == 0


async def test_a_killed_node_finds_its_blocks_again_I4(stores, dram, ssd):  # noqa: N802
    async with open_node(stores, dram_blocks=10, ssd_blocks=40) as rig:
        for name in range(4):
            await rig.write(prompt(5, name))
            await rig.node.settle()
        before = rig.node.usage()
    async with open_node(stores, dram_blocks=10, ssd_blocks=40, epoch=2) as rig:
        assert rig.node.usage() == before
        for name in range(4):
            assert await rig.read(prompt(5, name)) == (5, ReadEnd.COMPLETE)
        assert await rig.write(prompt(6, name=3))


async def test_a_store_that_comes_back_empty_costs_its_blocks_only(stores, dram: MemoryStore):
    async with open_node(stores) as rig:
        dram.break_down()
        await rig.node.look_at_stores()
        await rig.write(prompt(3, name=0))  # to the SSD
        dram.heal()
        await rig.node.look_at_stores()
        await rig.write(prompt(3, name=1))
        assert rig.blocks() == (3, 3)
        dram.empty()
        await rig.node.look_at_stores()
        assert rig.match(prompt(3, name=0)) == 3
        assert rig.match(prompt(3, name=1)) == 0
        assert await rig.write(prompt(3, name=1)) == [STORED] * 3


async def test_an_unexpected_loss_has_the_store_looked_at(stores, dram: MemoryStore):
    async with open_node(stores) as rig:
        await rig.write(prompt(5))
        await rig.write(prompt(5, name=1))
        dram.empty()
        assert await rig.read(prompt(5)) == (0, ReadEnd.LOST)
        await rig.node.look_at_stores()
        assert rig.match(prompt(5, name=1)) == 0
        assert rig.usage(Tier.DRAM).used_bytes == 0


async def test_a_store_that_comes_back_with_its_blocks_keeps_them(stores, dram: MemoryStore):
    async with open_node(stores) as rig:
        await rig.write(prompt(5))
        dram.break_down()
        assert await rig.read(prompt(5)) == (0, ReadEnd.UNAVAILABLE)
        assert rig.usage(Tier.DRAM).trouble == "the store does not answer"
        assert rig.match(prompt(5)) == 0
        dram.heal()
        await rig.node.look_at_stores()
        assert rig.usage(Tier.DRAM).trouble == ""
        assert await rig.read(prompt(5)) == (5, ReadEnd.COMPLETE)
        assert dram.used_bytes == 5 * STORED_BYTES == rig.usage(Tier.DRAM).used_bytes


async def test_a_write_falls_through_to_the_other_tier(stores, dram: MemoryStore):
    async with open_node(stores) as rig:
        dram.break_down()
        assert await rig.write(prompt(8)) == [STORED] * 8
        assert rig.blocks() == (0, 8)
        assert await rig.read(prompt(8)) == (8, ReadEnd.COMPLETE)


async def test_a_node_without_stores_that_answer_refuses_and_lives(stores, dram, ssd):
    async with open_node(stores) as rig:
        dram.break_down()
        ssd.break_down()
        assert set(await rig.write(prompt(3))) <= {
            WriteStatus.UNAVAILABLE,
            WriteStatus.PARENT_MISSING,
        }
        assert await rig.read(prompt(3)) == (0, ReadEnd.MISS)
        dram.heal()
        await rig.node.look_at_stores()
        assert await rig.write(prompt(3)) == [STORED] * 3


async def test_a_node_starts_without_its_dram_and_takes_it_in_later(stores, dram: MemoryStore):
    dram.break_down()
    async with open_node(stores) as rig:
        assert rig.usage(Tier.DRAM).trouble == "the store does not answer"
        assert await rig.write(prompt(3)) == [STORED] * 3
        dram.heal()
        await rig.node.look_at_stores()
        assert await rig.write(prompt(3, name=1)) == [STORED] * 3
        assert rig.blocks() == (3, 3)


async def test_a_full_store_is_read_on_and_left_alone_for_a_while(stores, dram: MemoryStore):
    clock = ManualClock()
    async with open_node(stores, clock=clock) as rig:
        await rig.write(prompt(4))
        dram.is_full = True
        assert await rig.write(prompt(4, name=1)) == [STORED] * 4
        assert rig.usage(Tier.DRAM).trouble == "the store is full"
        assert await rig.read(prompt(4)) == (4, ReadEnd.COMPLETE)
        assert await rig.read(prompt(4, name=1)) == (4, ReadEnd.COMPLETE)
        assert rig.blocks() == (4, 4)
        dram.is_full = False
        clock.advance(FULL_S)
        await rig.node.look_at_stores()
        await rig.write(prompt(4, name=2))
        assert rig.blocks() == (8, 4)


async def test_demotion_into_a_full_ssd_drops_tails_and_comes_to_rest(stores, ssd: MemoryStore):
    async with open_node(stores, dram_blocks=10, ssd_blocks=40) as rig:
        ssd.is_full = True
        for name in range(5):
            await rig.write_slowly(prompt(4, name))
        assert rig.usage(Tier.SSD).trouble == "the store is full"
        assert rig.usage(Tier.DRAM).used_bytes <= 10 * STORED_BYTES
        assert await rig.read(prompt(4, name=4)) == (4, ReadEnd.COMPLETE)


async def test_a_prefetch_lifts_blocks_from_the_ssd(stores, dram: MemoryStore):
    async with open_node(stores) as rig:
        dram.break_down()
        await rig.write(prompt(6))
        dram.heal()
        await rig.node.look_at_stores()
        assert rig.prefetch(prompt(6)) == 6
        await rig.node.settle()
        assert rig.blocks() == (6, 0)
        assert rig.meters.value("cachenode_promoted_blocks_total") == 6
        assert await rig.read(prompt(6)) == (6, ReadEnd.COMPLETE)


async def test_a_direct_write_is_located_and_counts_as_a_hit(ssd):
    dram = DirectMemoryStore()
    keys = prompt(3)
    async with open_node({Tier.DRAM: dram, Tier.SSD: ssd}) as rig:
        checksums = tuple(header_of(key, b"").checksum for key in keys)
        reservation = rig.node.reserve(
            ReserveQuery(b"", WriteStart(SPEC, None), PackedKeys.join(keys), b"", checksums)
        )
        for key, copy in zip(keys, reservation.outcomes, strict=True):
            assert isinstance(copy, ReservedCopy)
            dram.client_writes(key, copy.sequence)
        assert await rig.node.commit(reservation.reservation_id) == [STORED] * 3
        query = LocateQuery(b"", SPEC.namespace_id, PackedKeys.join(keys), 0, None)
        assert len(rig.node.locate(query).blocks) == 3
        rig.node.tick()
        assert rig.meters.value("cachenode_cache_hit_ratio", tier="dram") == 1


async def test_a_reservation_in_a_node_ends_by_abort_or_by_time(ssd):
    clock, keys = ManualClock(), prompt(1)
    query = ReserveQuery(b"", WriteStart(SPEC, None), PackedKeys.join(keys), b"", (0,))
    async with open_node({Tier.DRAM: DirectMemoryStore(), Tier.SSD: ssd}, clock=clock) as rig:
        await rig.node.abort(rig.node.reserve(query).reservation_id)
        rig.node.reserve(query)
        clock.advance(TTL_S + GRACE_S)
        rig.node.tick()
        for outcome in ("given_up", "expired"):
            assert rig.meters.value("cachenode_reservations_total", outcome=outcome) == 1


async def test_a_prefetch_does_nothing_where_it_is_off(stores, dram: MemoryStore):
    async with open_node(stores, is_prefetch_on=False) as rig:
        dram.break_down()
        await rig.write(prompt(6))
        dram.heal()
        await rig.node.look_at_stores()
        assert rig.prefetch(prompt(6)) == 0


async def test_a_move_that_finds_its_block_damaged_drops_it(stores, dram, ssd):
    async with open_node(stores) as rig:
        dram.break_down()
        await rig.write(prompt(4))
        dram.heal()
        await rig.node.look_at_stores()
        for name in ssd.stored:
            if name[1] == prompt(4)[2]:
                ssd.stored[name] = ssd.stored[name][:-1] + b"?"
        rig.prefetch(prompt(4))
        await rig.node.settle()
        assert rig.match(prompt(4)) == 2
        assert ssd.used_bytes == rig.usage(Tier.SSD).used_bytes == 0


async def test_a_reader_that_leaves_early_leaves_nothing_behind(stores, dram: MemoryStore):
    keys = prompt(16)
    async with open_node(stores) as rig:
        await rig.write(keys)
        query = ReadQuery(SPEC.namespace_id, PackedKeys.join(keys), 0, None)
        async with aclosing(rig.node.read(query)) as steps:
            await anext(steps)
            assert rig.node.calls_in_flight == 1
            rig.node.drop(DropBlocks(SPEC.namespace_id, PackedKeys.join(keys)))
            await rig.node.settle()
            assert dram.used_bytes > 0  # the reader still holds its copies
        assert rig.node.calls_in_flight == 0
        await rig.node.settle()
        assert dram.used_bytes == 0 == rig.usage(Tier.DRAM).used_bytes


async def test_a_writer_that_leaves_early_keeps_what_was_complete(stores, dram: MemoryStore):
    keys = prompt(3)

    async def chunks():
        yield BlockChunk(header_of(keys[0], b""), bytes(SPEC.block_bytes))  # another's bytes
        yield BlockChunk(header_of(keys[1], b""), payload_of(keys[1]))
        yield BlockChunk(header_of(keys[2], keys[1]), b"half")

    async with open_node(stores) as rig:
        with pytest.raises(BlockSizeError, match="payload is 4 bytes, header says 1000"):
            await rig.node.write(WriteStart(SPEC, None), chunks())
        assert rig.match(keys[1:]) == 1
        assert rig.usage(Tier.DRAM).reserved_bytes == 0
        assert dram.used_bytes == STORED_BYTES


async def test_the_gauges_show_what_is_held_and_hit(stores):
    async with open_node(stores) as rig:
        await rig.write(prompt(3))
        await rig.read(prompt(4))
        rig.node.tick()
        assert rig.meters.value("cachenode_tier_blocks", tier="dram") == 3
        assert rig.meters.value("cachenode_tier_healthy", tier="ssd") == 1
        assert rig.meters.value("cachenode_cache_hit_ratio", tier="dram") == 0.75
        assert rig.meters.value("cachenode_cache_hit_ratio", tier="total") == 0.75
        assert rig.meters.value("cachenode_writes_total", status="stored") == 3


HIT = "cache_hit_ratio=hbm:0,dram:0.75,ssd:0,total:0.75"


async def test_a_log_line_a_minute_says_what_is_held_and_hit_where_that_changed(stores, caplog):
    caplog.set_level(logging.INFO, logger="test")
    clock = ManualClock()
    async with open_node(stores, clock=clock) as rig:
        await rig.write(prompt(3))
        await rig.read(prompt(4))
        for _ in range(4):
            rig.node.tick()
            clock.advance(MEASURE_S / 2)
        await rig.write(prompt(1, name=1))
        rig.node.tick()
    lines = [record.message for record in caplog.records if "NodeMeasured" in record.message]
    assert lines == [
        f"NodeMeasured used_bytes=dram:{held * STORED_BYTES},ssd:0 blocks=dram:{held},ssd:0 {HIT}"
        for held in (3, 4)
    ]
