"""Tests of `cachenode.block_writer`; tests/unit/cachenode/test_node.py writes through a node."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from cachenode.block_writer import UNDER_WAY_MAX, BlockWriter
from cachenode.store import CopyWrite
from hearthkv.core.block_io import BlockChunk, DropNamespace, WriteStart, WriteStatus
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import BlockSizeError, StoreError, StoreUnavailableError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, STORED_BYTES, Parts, header_of, parts_over, payload_of, prompt

STORED = WriteStatus.STORED


class SlowStore(MemoryStore):
    """Counts the writes under way, and refuses the keys that it is told to."""

    def __init__(self, tier: Tier = Tier.DRAM) -> None:
        super().__init__(tier)
        self.refused: set[bytes] = set()
        self.under_way = 0
        self.under_way_max = 0

    async def put(self, writes: Sequence[CopyWrite]) -> list[StoreError | None]:
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        try:
            # The later blocks of a prompt are the faster ones.
            for _ in range(20 - writes[0].frame.key[2]):
                await asyncio.sleep(0)
            if writes[0].frame.key in self.refused:
                return [StoreUnavailableError("refused")]
            return await super().put(writes)
        finally:
            self.under_way -= 1


class GatedStore(MemoryStore):
    """Takes nothing until its gate is opened."""

    def __init__(self, tier: Tier = Tier.DRAM) -> None:
        super().__init__(tier)
        self.gate = asyncio.Event()
        self.under_way = asyncio.Semaphore(0)

    async def put(self, writes: Sequence[CopyWrite]) -> list[StoreError | None]:
        self.under_way.release()
        await self.gate.wait()
        return await super().put(writes)


@pytest.fixture
def dram() -> SlowStore:
    return SlowStore()


@pytest.fixture
def ssd() -> SlowStore:
    return SlowStore(Tier.SSD)


@pytest.fixture
def parts(dram: SlowStore, ssd: SlowStore) -> Parts:
    return parts_over({Tier.DRAM: dram, Tier.SSD: ssd})


async def chunks_of_prompt(keys: list[bytes]) -> AsyncIterator[BlockChunk]:
    for key, before in zip(keys, [b"", *keys], strict=False):
        yield BlockChunk(header_of(key, before), payload_of(key))


async def write(parts: Parts, chunks: AsyncIterator[BlockChunk]) -> list[WriteStatus]:
    async with asyncio.TaskGroup() as tasks:
        writer = BlockWriter(parts.catalog, parts.stores, tasks=tasks, telemetry=parts.telemetry)
        return await writer.write(WriteStart(SPEC, None), chunks)


def matched(parts: Parts, keys: list[bytes]) -> int:
    return parts.catalog.match(SPEC.namespace_id, PackedKeys.join(keys)).total


async def test_a_bounded_number_of_blocks_is_under_way(parts: Parts, dram: SlowStore):
    keys = prompt(12)
    assert await write(parts, chunks_of_prompt(keys)) == [STORED] * 12
    assert dram.under_way_max == UNDER_WAY_MAX
    assert matched(parts, keys) == 12
    assert parts.meters.value("cachenode_written_bytes_total") == 12 * SPEC.block_bytes


async def test_a_block_that_one_store_refuses_goes_to_the_other(parts, dram, ssd):
    keys = prompt(8)
    dram.refused = {keys[2]}
    assert await write(parts, chunks_of_prompt(keys)) == [STORED] * 8
    assert [usage.reserved_bytes for usage in parts.catalog.usage()] == [0, 0]
    parts.stores.heal(Tier.DRAM)
    assert matched(parts, keys) == 8
    assert keys[2] in {key for _, key, _ in ssd.stored}


async def test_a_block_that_no_store_takes_is_refused_with_what_hangs_on_it(parts, dram, ssd):
    keys = prompt(8)
    dram.refused = ssd.refused = {keys[2]}
    statuses = await write(parts, chunks_of_prompt(keys))
    assert statuses[:2] == [STORED] * 2
    assert statuses[2] is WriteStatus.UNAVAILABLE
    assert not any(status.is_held for status in statuses[2:])
    assert [usage.reserved_bytes for usage in parts.catalog.usage()] == [0, 0]


async def test_a_writer_that_is_cancelled_leaves_what_was_under_way_stored(parts, dram):
    keys = prompt(3)
    arrived = asyncio.Event()

    async def chunks() -> AsyncIterator[BlockChunk]:
        async for chunk in chunks_of_prompt(keys):
            yield chunk
        arrived.set()
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(write(parts, chunks()))
        await arrived.wait()
        writing.cancel()
    assert matched(parts, keys) == 3
    assert dram.used_bytes == 3 * STORED_BYTES


@pytest.mark.parametrize("failing", [False, True], ids=["stored", "tried-elsewhere"])
async def test_a_writer_that_is_cancelled_while_it_waits_for_a_store_loses_no_room(failing: bool):
    dram, ssd = GatedStore(Tier.DRAM), GatedStore(Tier.SSD)
    parts = parts_over({Tier.DRAM: dram, Tier.SSD: ssd})
    if failing:
        dram.break_down()
    keys = prompt(UNDER_WAY_MAX + 2)
    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(write(parts, chunks_of_prompt(keys)))
        for _ in range(UNDER_WAY_MAX):
            await dram.under_way.acquire()
        if failing:
            dram.gate.set()
            await ssd.under_way.acquire()
        writing.cancel()
        await asyncio.sleep(0)  # the writer is told before its stores answer
        dram.gate.set()
        ssd.gate.set()
    assert [usage.reserved_bytes for usage in parts.catalog.usage()] == [0, 0]
    assert matched(parts, keys) == UNDER_WAY_MAX
    parts.catalog.drop(DropNamespace(SPEC.namespace_id))
    assert parts.catalog.namespaces() == ()


async def test_a_namespace_of_other_sizes_is_refused_before_the_first_block(parts):
    await write(parts, chunks_of_prompt(prompt(1)))
    other = WriteStart(NamespaceSpec(SPEC.namespace_id, 16, 1), None)
    async with asyncio.TaskGroup() as tasks:
        writer = BlockWriter(parts.catalog, parts.stores, tasks=tasks, telemetry=parts.telemetry)
        with pytest.raises(BlockSizeError):
            await writer.write(other, chunks_of_prompt([]))
