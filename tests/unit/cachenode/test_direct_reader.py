"""Tests of `cachenode.direct_reader`: what is shown of a prefix, and how it counts."""

import pytest

from cachenode.direct_reader import DirectReader
from hearthkv.core.block_io import DropSession, ReadEnd
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.direct_path import (
    BlockAddress,
    FileAddress,
    LocatedBlock,
    LocateQuery,
    RedisAddress,
)
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, Parts, hold, parts_over, prompt


def address_of(ref: BlockRef) -> BlockAddress | None:
    """Where the stores of these tests say that a copy lies."""
    return RedisAddress(0) if ref.tier is Tier.DRAM else FileAddress("f", ref.sequence * 4096)


@pytest.fixture
def dram() -> MemoryStore:
    store = MemoryStore(Tier.DRAM)
    store.address_of = address_of
    return store


@pytest.fixture
def parts(dram: MemoryStore) -> Parts:
    ssd = MemoryStore(Tier.SSD)
    ssd.address_of = address_of
    return parts_over({Tier.DRAM: dram, Tier.SSD: ssd}, blocks_max=6)


@pytest.fixture
def reader(parts: Parts) -> DirectReader:
    return DirectReader(parts.catalog, parts.stores, hits=parts.hits, telemetry=parts.telemetry)


def query(keys: list[bytes], session: str | None = None) -> LocateQuery:
    session_id = None if session is None else SessionId(session)
    return LocateQuery(b"", SPEC.namespace_id, PackedKeys.join(keys), 0, session_id)


async def test_the_held_prefix_is_shown_in_order_over_both_tiers(parts, reader):
    keys = prompt(8)  # six in DRAM, two on the SSD
    refs = await hold(parts, keys)
    located = reader.locate(query(keys))
    assert located.end is ReadEnd.COMPLETE
    assert located.blocks == tuple(LocatedBlock(ref, address_of(ref)) for ref in refs)
    assert {block.ref.tier for block in located.blocks} == {Tier.DRAM, Tier.SSD}


async def test_it_ends_where_the_run_ends(parts, reader):
    keys = prompt(3)
    await hold(parts, keys[:2])
    located = reader.locate(query(keys))
    assert (len(located.blocks), located.end) == (2, ReadEnd.MISS)


def test_nothing_held_is_a_miss(reader):
    assert reader.locate(query(prompt(2))).end is ReadEnd.MISS


async def test_it_ends_before_a_copy_that_can_not_be_had_directly(parts, dram, reader):
    keys = prompt(5)
    refs = await hold(parts, keys)
    dram.address_of = lambda ref: None if ref == refs[3] else address_of(ref)
    located = reader.locate(query(keys))
    assert [block.ref for block in located.blocks] == refs[:3]
    assert located.end is ReadEnd.UNAVAILABLE


async def test_a_located_block_counts_as_read_and_as_located(parts, reader):
    keys = prompt(8)
    await hold(parts, keys)
    reader.locate(query([*keys, *prompt(2, name=1)]))
    for verb in ("read", "located"):
        for tier, blocks in (("dram", 6), ("ssd", 2)):
            assert parts.meters.value(f"cachenode_{verb}_blocks_total", tier=tier) == blocks
            assert (
                parts.meters.value(f"cachenode_{verb}_bytes_total", tier=tier)
                == blocks * SPEC.block_bytes
            )
    assert parts.meters.value("cachenode_asked_blocks_total") == 10
    assert parts.hits.ratios() == {Tier.HBM: 0, Tier.DRAM: 0.6, Tier.SSD: 0.2}


async def test_what_a_read_must_fetch_is_asked_for_there_and_not_here(parts, dram, reader):
    keys = prompt(5)
    refs = await hold(parts, keys)
    dram.address_of = lambda ref: None if ref == refs[3] else address_of(ref)
    reader.locate(query(keys))
    assert parts.meters.value("cachenode_asked_blocks_total") == 3
    assert parts.hits.ratios()[Tier.DRAM] == 1


async def test_what_was_located_is_hot_and_belongs_to_the_session(parts, reader):
    first, second = prompt(4), prompt(4, name=1)
    await hold(parts, first)
    await hold(parts, second)
    assert parts.catalog.match(SPEC.namespace_id, PackedKeys.join(second)).ssd == 2
    reader.locate(query(first, session="s"))
    demotions = parts.catalog.plan_demotions()
    assert {move.source.key for move in demotions.moves} <= set(second)
    assert demotions.moves
    assert parts.catalog.drop(DropSession(SessionId("s"))) == 4


async def test_nothing_is_kept_from_erasure(parts, reader):
    keys = prompt(2)
    refs = await hold(parts, keys)
    reader.locate(query(keys))
    parts.catalog.lose(refs[0])
    assert set(parts.catalog.plan_erasures()) == set(refs)
