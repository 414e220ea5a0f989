"""Tests of `cachenode.tier_stores`."""

import pytest

from cachenode.store import CopyRead, CopyWrite
from cachenode.tier_stores import DOUBT_EVERY_S, FULL_S
from hearthkv.core.block_frame import frame_of
from hearthkv.core.block_io import ReadEnd
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, Parts, hold, parts_over, payload_of, prompt


@pytest.fixture
def dram() -> MemoryStore:
    return MemoryStore(Tier.DRAM)


@pytest.fixture
def parts(dram: MemoryStore) -> Parts:
    return parts_over({Tier.DRAM: dram, Tier.SSD: MemoryStore(Tier.SSD)})


async def fetch(parts: Parts, ref: BlockRef) -> ReadEnd | None:
    (end,) = await parts.stores.fetch(
        ref.tier, [CopyRead(ref, memoryview(bytearray(ref.size_bytes)))]
    )
    return end


async def test_a_copy_that_is_there_is_fetched(parts: Parts):
    (ref,) = await hold(parts, prompt(1))
    into = bytearray(ref.size_bytes)
    reads = [CopyRead(ref, memoryview(into))]
    assert await parts.stores.fetch(Tier.DRAM, reads) == [None]
    assert into == payload_of(ref.key)


async def test_a_lost_copy_is_dropped_and_leaves_doubts(parts: Parts, dram: MemoryStore):
    refs = await hold(parts, prompt(3))
    dram.damage(refs[1])
    assert await fetch(parts, refs[1]) is ReadEnd.LOST
    assert parts.meters.value("cachenode_lost_blocks_total", cause="bad_bytes") == 2
    assert parts.stores.doubt.is_set()
    assert parts.stores.work.is_set()
    assert await fetch(parts, refs[1]) is ReadEnd.LOST
    assert parts.meters.value("cachenode_lost_blocks_total", cause="bad_bytes") == 2


async def test_a_store_that_does_not_answer_is_in_trouble_until_it_heals(
    parts: Parts, dram: MemoryStore
):
    (ref,) = await hold(parts, prompt(1))
    dram.break_down()
    assert await fetch(parts, ref) is ReadEnd.UNAVAILABLE
    assert not await parts.stores.erase(Tier.DRAM, [ref])
    assert parts.catalog.trouble(Tier.DRAM) == "the store does not answer"
    assert parts.stores.doubt.is_set()
    parts.stores.heal(Tier.DRAM)
    assert parts.catalog.trouble(Tier.DRAM) == ""


async def test_doubts_about_a_store_that_looks_well_and_fails_come_with_a_pause(parts, dram):
    (ref,) = await hold(parts, prompt(1))
    dram.break_down()
    await fetch(parts, ref)
    parts.stores.doubt.clear()  # as the watch does, which finds nothing and heals the tier
    parts.stores.heal(Tier.DRAM)
    await fetch(parts, ref)
    assert not parts.stores.doubt.is_set()
    assert parts.catalog.trouble(Tier.DRAM)
    parts.clock.advance(DOUBT_EVERY_S)
    await fetch(parts, ref)
    assert parts.stores.doubt.is_set()


async def test_trouble_and_its_end_are_told_once(parts: Parts, caplog):
    parts.stores.trouble(Tier.SSD, "is away")
    parts.stores.trouble(Tier.SSD, "is away")
    parts.stores.heal(Tier.SSD)
    parts.stores.heal(Tier.SSD)
    told = [record.getMessage() for record in caplog.records]
    assert told == ["TierTroubled tier=ssd trouble='is away'", "TierHealed tier=ssd"]


async def test_a_full_store_stays_full_for_a_while(parts: Parts, dram: MemoryStore):
    (ref,) = await hold(parts, prompt(1))
    dram.is_full = True
    write = CopyWrite(frame_of(SPEC, ref), payload_of(ref.key))
    assert await parts.stores.store(Tier.DRAM, [write]) == [False]
    assert parts.catalog.usage()[0].trouble == "the store is full"
    assert parts.catalog.trouble(Tier.DRAM) == ""
    parts.clock.advance(FULL_S - 1)
    parts.stores.heal(Tier.DRAM)
    assert parts.catalog.usage()[0].trouble == "the store is full"
    parts.clock.advance(1)
    parts.stores.heal(Tier.DRAM)
    assert parts.catalog.usage()[0].trouble == ""
