"""Tests of `cachenode.block_reader`; tests/unit/cachenode/test_node.py reads through a node."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from cachenode.block_reader import AHEAD_MAX, BlockReader
from cachenode.store import CopyRead
from hearthkv.core.block_io import CHUNK_BYTES_MAX, ReadEnd, ReadQuery
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import StoreError
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, Parts, hold, parts_over, prompt


class CountingStore(MemoryStore):
    """Counts the reads under way, and lets each take a few turns of the loop."""

    under_way = 0
    under_way_max = 0

    async def get(self, reads: Sequence[CopyRead]) -> list[StoreError | None]:
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        try:
            # The later blocks of a prompt are the faster ones.
            for _ in range(20 - reads[0].ref.key[2]):
                await asyncio.sleep(0)
            return await super().get(reads)
        finally:
            self.under_way -= 1


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def parts(store: CountingStore) -> Parts:
    return parts_over({Tier.DRAM: store})


def query(keys: list[bytes]) -> ReadQuery:
    return ReadQuery(SPEC.namespace_id, PackedKeys.join(keys), 0, None)


def reader(parts: Parts, tasks: asyncio.TaskGroup, ahead: int) -> BlockReader:
    return BlockReader(
        parts.catalog,
        parts.stores,
        tasks=tasks,
        ahead=ahead,
        hits=parts.hits,
        telemetry=parts.telemetry,
    )


@pytest.mark.parametrize("ahead", [1, AHEAD_MAX])
async def test_blocks_come_in_order_with_a_bounded_number_under_way(parts, store, ahead: int):
    keys = prompt(12)
    await hold(parts, keys)
    async with asyncio.TaskGroup() as tasks:
        steps = [step async for step in reader(parts, tasks, ahead).read(query(keys))]
    *chunks, end = steps
    assert end is ReadEnd.COMPLETE
    assert [chunk.header.key for (chunk,) in chunks] == keys
    assert {chunk.header.tier for (chunk,) in chunks} == {Tier.DRAM}
    assert store.under_way_max == ahead


async def test_a_reader_that_leaves_takes_its_reads_with_it(parts, store):
    keys = prompt(12)
    await hold(parts, keys)
    async with asyncio.TaskGroup() as tasks:
        async with aclosing(reader(parts, tasks, AHEAD_MAX).read(query(keys))) as steps:
            assert isinstance(await anext(steps), tuple)
        assert store.under_way == 0


async def test_what_was_read_of_what_was_asked_for_is_the_hit_ratio(parts):
    keys = prompt(4)
    await hold(parts, keys[:3])
    async with asyncio.TaskGroup() as tasks:
        blocks = reader(parts, tasks, 1)
        assert parts.hits.ratios() == {Tier.HBM: 0, Tier.DRAM: 0, Tier.SSD: 0}
        steps = [step async for step in blocks.read(query(keys))]
        assert steps[-1] is ReadEnd.MISS
        assert parts.hits.ratios() == {Tier.HBM: 0, Tier.DRAM: 0.75, Tier.SSD: 0}


def test_a_chunk_has_a_bound():
    assert CHUNK_BYTES_MAX <= 1024 * 1024
