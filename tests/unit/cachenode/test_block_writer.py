"""Tests of `cachenode.block_writer`; tests/unit/cachenode/test_node.py writes through a node."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachenode.block_writer import BATCH_BYTES, BATCHES_MAX, BlockWriter
from cachenode.buffer_pool import SMALLEST_BYTES, BufferPool
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
    """Keeps the batches that it gets, and refuses the keys that it is told to."""

    def __init__(self, tier: Tier = Tier.DRAM) -> None:
        super().__init__(tier)
        self.refused: set[bytes] = set()
        self.batches: list[list[bytes]] = []
        self.under_way = 0
        self.under_way_max = 0

    async def put(self, writes: Sequence[CopyWrite]) -> list[StoreError | None]:
        self.batches.append([write.frame.key for write in writes])
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        try:
            # The later blocks of a prompt are the faster ones.
            for _ in range(20 - writes[0].frame.key[2]):
                await asyncio.sleep(0)
            return [self.put_one(write) for write in writes]
        finally:
            self.under_way -= 1

    def put_one(self, write: CopyWrite) -> StoreError | None:
        if write.frame.key in self.refused:
            return StoreUnavailableError("refused")
        return super().put_one(write)


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


async def chunks_of_prompt(
    keys: list[bytes], spec: NamespaceSpec = SPEC, *, pieces: int = 1
) -> AsyncIterator[BlockChunk]:
    for key, before in zip(keys, [b"", *keys], strict=False):
        payload = memoryview(payload_of(key, spec))
        piece = -(-len(payload) // pieces)
        yield BlockChunk(header_of(key, before, spec), payload[:piece])
        for at in range(piece, len(payload), piece):
            yield BlockChunk(None, payload[at : at + piece])


async def write(
    parts: Parts,
    chunks: AsyncIterator[BlockChunk],
    spec: NamespaceSpec = SPEC,
    pool: BufferPool | None = None,
) -> list[WriteStatus]:
    async with asyncio.TaskGroup() as tasks:
        writer = BlockWriter(
            parts.catalog,
            parts.stores,
            tasks=tasks,
            pool=pool or BufferPool(1 << 30),
            telemetry=parts.telemetry,
        )
        return await writer.write(WriteStart(spec, None), chunks)


def matched(parts: Parts, keys: list[bytes]) -> int:
    return parts.catalog.match(SPEC.namespace_id, PackedKeys.join(keys)).total


async def test_what_arrives_while_stores_are_busy_goes_by_one_call(parts, dram: SlowStore):
    keys = prompt(12)
    assert await write(parts, chunks_of_prompt(keys)) == [STORED] * 12
    assert dram.batches == [keys[:1], keys[1:2], keys[2:]]
    assert matched(parts, keys) == 12
    assert parts.meters.value("cachenode_written_bytes_total") == 12 * SPEC.block_bytes
    assert parts.catalog.written_bytes == 12 * SPEC.block_bytes


@pytest.mark.parametrize(("block_bytes", "most"), [(BATCH_BYTES // 3, 3), (BATCH_BYTES + 1, 1)])
async def test_batches_and_their_number_have_a_bound(dram, block_bytes: int, most: int):
    parts = parts_over({Tier.DRAM: dram}, blocks_max=1 << 20)
    spec = NamespaceSpec(SPEC.namespace_id, 16, block_bytes)
    keys = prompt(9)
    assert await write(parts, chunks_of_prompt(keys, spec), spec) == [STORED] * 9
    assert max(map(len, dram.batches)) == most
    assert [key for batch in dram.batches for key in batch] == keys
    assert dram.under_way_max == BATCHES_MAX


async def test_blocks_in_parts_share_what_memory_there_is(dram):
    parts = parts_over({Tier.DRAM: dram}, blocks_max=1 << 20)
    spec = NamespaceSpec(SPEC.namespace_id, 16, SMALLEST_BYTES)
    pool = BufferPool(2 * SMALLEST_BYTES)
    prompts = [prompt(9, name) for name in range(5)]
    async with asyncio.TaskGroup() as tasks:
        writes = [
            tasks.create_task(write(parts, chunks_of_prompt(keys, spec, pieces=3), spec, pool))
            for keys in prompts
        ]
    assert [writing.result() for writing in writes] == [[STORED] * 9] * 5
    assert pool.lent_bytes == 0
    stored = {key: payload[-spec.block_bytes :] for (_, key, _), payload in dram.stored.items()}
    assert stored == {key: payload_of(key, spec) for keys in prompts for key in keys}


@pytest.mark.parametrize("fault", ["cut", "second-header", "corrupt", "held"])
async def test_whatever_becomes_of_a_block_in_parts_its_memory_comes_back(parts, fault: str):
    keys = prompt(2)
    pool = BufferPool(1 << 30)
    if fault == "held":
        await write(parts, chunks_of_prompt(keys, pieces=2), pool=pool)

    async def chunks() -> AsyncIterator[BlockChunk]:
        sent = [chunk async for chunk in chunks_of_prompt(keys, pieces=2)]
        if fault == "cut":
            del sent[-1]
        elif fault == "second-header":
            del sent[1]
        elif fault == "corrupt":
            sent[1] = BlockChunk(None, bytes(len(sent[1].data)))
        for chunk in sent:
            yield chunk

    try:
        statuses = await write(parts, chunks(), pool=pool)
    except* BlockSizeError:
        assert fault in {"cut", "second-header"}
    else:
        assert statuses[0] is {"corrupt": WriteStatus.CORRUPT}.get(fault, WriteStatus.ALREADY_HELD)
    assert pool.lent_bytes == 0
    assert [usage.reserved_bytes for usage in parts.catalog.usage()] == [0, 0]


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


@given(st.sets(st.integers(0, 19)), st.sets(st.integers(0, 19)))
async def test_whatever_stores_refuse_statuses_and_accounts_are_right(
    of_dram: set[int], of_ssd: set[int]
):
    dram, ssd = SlowStore(Tier.DRAM), SlowStore(Tier.SSD)
    parts = parts_over({Tier.DRAM: dram, Tier.SSD: ssd})
    keys = prompt(20)
    dram.refused = {keys[at] for at in of_dram}
    ssd.refused = {keys[at] for at in of_ssd}
    statuses = await write(parts, chunks_of_prompt(keys))
    for tier in parts.stores.by_tier:
        parts.stores.heal(tier)
    held = [status.is_held for status in statuses]
    assert matched(parts, keys) == [*held, False].index(False)
    assert not any(held[held.index(False) :] if False in held else [])
    assert all(held) or of_dram
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
@pytest.mark.parametrize("told", [1, 3], ids=["once", "often"])
async def test_a_writer_that_is_cancelled_while_it_waits_for_a_store_loses_no_room(
    failing: bool, told: int
):
    dram, ssd = GatedStore(Tier.DRAM), GatedStore(Tier.SSD)
    parts = parts_over({Tier.DRAM: dram, Tier.SSD: ssd})
    if failing:
        dram.break_down()
    keys = prompt(BATCHES_MAX + 2)
    async with asyncio.TaskGroup() as node_tasks:
        writer = BlockWriter(
            parts.catalog,
            parts.stores,
            tasks=node_tasks,
            pool=BufferPool(1 << 30),
            telemetry=parts.telemetry,
        )
        writing = node_tasks.create_task(writer.write(WriteStart(SPEC, None), never_ending(keys)))
        for _ in range(BATCHES_MAX):
            await dram.under_way.acquire()
        if failing:
            dram.gate.set()
            await ssd.under_way.acquire()
        for _ in range(told):  # the writer is told before its stores answer
            writing.cancel()
            await asyncio.sleep(0)
        dram.gate.set()
        ssd.gate.set()
    assert [usage.reserved_bytes for usage in parts.catalog.usage()] == [0, 0]
    assert matched(parts, keys) == len(keys)
    parts.catalog.drop(DropNamespace(SPEC.namespace_id))
    assert parts.catalog.namespaces() == ()


async def never_ending(keys: list[bytes]) -> AsyncIterator[BlockChunk]:
    async for chunk in chunks_of_prompt(keys):
        yield chunk
    await asyncio.Event().wait()


async def test_a_namespace_of_other_sizes_is_refused_before_the_first_block(parts):
    await write(parts, chunks_of_prompt(prompt(1)))
    other = WriteStart(NamespaceSpec(SPEC.namespace_id, 16, 1), None)
    async with asyncio.TaskGroup() as tasks:
        writer = BlockWriter(
            parts.catalog,
            parts.stores,
            tasks=tasks,
            pool=BufferPool(1),
            telemetry=parts.telemetry,
        )
        with pytest.raises(BlockSizeError):
            await writer.write(other, chunks_of_prompt([]))
