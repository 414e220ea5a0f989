"""Tests of `cachenode.block_reader`; tests/unit/cachenode/test_node.py reads through a node."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

import pytest

from cachenode.block_reader import WINDOW_BYTES, WINDOWS_MAX, BlockReader, windows_of
from cachenode.buffer_pool import SMALLEST_BYTES, BufferPool
from cachenode.store import CopyRead
from hearthkv.core.block_io import CHUNK_BYTES_MAX, BlockChunk, ReadEnd, ReadQuery
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.errors import StoreError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, Parts, hold, parts_over, payload_of, prompt

BIG = NamespaceSpec(b"b" * 16, 16, WINDOW_BYTES // 2 + 1)
"""A block of it is a window."""


class GatedStore(MemoryStore):
    """Tells which batches are read at once, and lets none end before its gate opens."""

    def __init__(self, tier: Tier = Tier.DRAM) -> None:
        super().__init__(tier)
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Semaphore(0)
        self.batches: list[list[bytes]] = []
        self.under_way = 0
        self.under_way_max = 0

    async def get(self, reads: Sequence[CopyRead]) -> list[StoreError | None]:
        self.batches.append([read.ref.key for read in reads])
        self.begun.release()
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        try:
            await asyncio.sleep(0)
            await self.gate.wait()
            return await super().get(reads)
        finally:
            self.under_way -= 1


class StubbornStore(GatedStore):
    """Writes into the memory of a read until its gate opens, cancelled or not."""

    async def get(self, reads: Sequence[CopyRead]) -> list[StoreError | None]:
        self.batches.append([read.ref.key for read in reads])
        self.begun.release()
        while not self.gate.is_set():
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                continue
        return self.get_all(reads)

    def get_all(self, reads: Sequence[CopyRead]) -> list[StoreError | None]:
        return [self.get_one(read) for read in reads]


@pytest.fixture
def dram() -> GatedStore:
    return GatedStore(Tier.DRAM)


@pytest.fixture
def ssd() -> GatedStore:
    return GatedStore(Tier.SSD)


@pytest.fixture
def parts(dram: GatedStore, ssd: GatedStore) -> Parts:
    return parts_over({Tier.DRAM: dram, Tier.SSD: ssd}, blocks_max=1 << 24)


def query(keys: list[bytes], spec: NamespaceSpec = SPEC, *, takes_chunks: bool = False):
    return ReadQuery(spec.namespace_id, PackedKeys.join(keys), 0, None, takes_chunks)


@asynccontextmanager
async def reader_over(
    parts: Parts, pool: BufferPool | None = None, *, is_parallel: bool = True
) -> AsyncIterator[BlockReader]:
    async with asyncio.TaskGroup() as tasks:
        yield BlockReader(
            parts.catalog,
            parts.stores,
            tasks=tasks,
            pool=pool or BufferPool(1 << 30),
            is_parallel=is_parallel,
            hits=parts.hits,
            telemetry=parts.telemetry,
        )


async def blocks_of(steps) -> tuple[list[tuple[bytes, bytes]], ReadEnd]:
    """Key and payload of the blocks that come, and how it ends."""
    blocks: list[tuple[bytes, bytes]] = []
    async for step in steps:
        if isinstance(step, ReadEnd):
            return blocks, step
        for chunk in step:
            if chunk.header is not None:
                blocks.append((chunk.header.key, b""))
            blocks[-1] = (blocks[-1][0], blocks[-1][1] + bytes(chunk.data))
    raise AssertionError("the read has no end")


@pytest.mark.parametrize("is_parallel", [False, True], ids=["serial", "parallel"])
@pytest.mark.parametrize("spec", [SPEC, BIG], ids=["small", "big"])
async def test_blocks_come_in_order_and_whole(parts: Parts, is_parallel: bool, spec):
    keys = prompt(12)
    await hold(parts, keys, spec)
    async with reader_over(parts, is_parallel=is_parallel) as reader:
        blocks, end = await blocks_of(reader.read(query(keys, spec)))
    assert end is ReadEnd.COMPLETE
    assert blocks == [(key, payload_of(key, spec)) for key in keys]


async def test_small_blocks_are_read_by_one_call(parts: Parts, dram: GatedStore):
    keys = prompt(12)
    await hold(parts, keys)
    async with reader_over(parts) as reader:
        await blocks_of(reader.read(query(keys)))
    assert dram.batches == [keys]


async def test_a_few_windows_are_under_way_at_once(parts: Parts, dram: GatedStore):
    keys = prompt(12)
    await hold(parts, keys, BIG)
    async with reader_over(parts) as reader:
        await blocks_of(reader.read(query(keys, BIG)))
    assert dram.batches == [[key] for key in keys]
    assert dram.under_way_max == WINDOWS_MAX


async def test_a_serial_read_has_one_block_under_way(parts: Parts, dram: GatedStore):
    keys = prompt(12)
    await hold(parts, keys)
    async with reader_over(parts, is_parallel=False) as reader:
        await blocks_of(reader.read(query(keys)))
    assert dram.batches == [[key] for key in keys]
    assert dram.under_way_max == 1


async def test_both_tiers_are_read_at_once(parts: Parts, dram: GatedStore, ssd: GatedStore):
    keys = prompt(12)
    await hold(parts, keys[:3])
    parts.catalog.set_full(Tier.DRAM, "no more here")
    await hold(parts, keys[3:7], parent_key=keys[2])
    parts.catalog.set_full(Tier.DRAM, "")
    await hold(parts, keys[7:], parent_key=keys[6])
    dram.gate.clear()
    ssd.gate.clear()
    async with reader_over(parts) as reader, asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(blocks_of(reader.read(query(keys))))
        await dram.begun.acquire()
        await ssd.begun.acquire()
        dram.gate.set()
        ssd.gate.set()
        blocks, end = await reading
    assert (dram.batches, ssd.batches) == ([keys[:3] + keys[7:]], [keys[3:7]])
    assert (blocks, end) == ([(key, payload_of(key)) for key in keys], ReadEnd.COMPLETE)
    assert parts.meters.value("cachenode_read_blocks_total", tier="ssd") == 4


async def test_a_lost_block_ends_the_run_where_it_lies(parts: Parts, dram: GatedStore):
    keys = prompt(12)
    refs = await hold(parts, keys)
    dram.damage(refs[5])
    async with reader_over(parts) as reader:
        blocks, end = await blocks_of(reader.read(query(keys)))
    assert ([key for key, _ in blocks], end) == (keys[:5], ReadEnd.LOST)


async def test_small_blocks_share_a_message_where_that_is_taken(parts: Parts):
    keys = prompt(12)
    await hold(parts, keys)
    async with reader_over(parts) as reader:
        lengths = [
            len(step)
            async for step in reader.read(query(keys, takes_chunks=True))
            if not isinstance(step, ReadEnd)
        ]
    assert lengths == [12]


async def test_the_data_of_a_step_hold_until_the_next_step_is_asked_for(parts: Parts):
    keys = prompt(8)
    await hold(parts, keys, BIG)
    pool = BufferPool(WINDOW_BYTES)  # one buffer
    async with reader_over(parts, pool) as reader, asyncio.TaskGroup() as tasks:
        async with aclosing(reader.read(query(keys, BIG))) as steps:
            chunk = only_chunk(await anext(steps))
            other = tasks.create_task(blocks_of(reader.read(query(keys, BIG))))
            for _ in range(100):
                await asyncio.sleep(0)
            # Another read wants the memory, and waits.
            assert not other.done()
            assert chunk.data == payload_of(keys[0], BIG)[:CHUNK_BYTES_MAX]
            memory = chunk.data.obj
        blocks, end = await other
        assert (blocks, end) == ([(key, payload_of(key, BIG)) for key in keys], ReadEnd.COMPLETE)
        # It was the same memory.
        assert bytes(memory[: len(chunk.data)]) == payload_of(keys[-1], BIG)[:CHUNK_BYTES_MAX]
    assert pool.lent_bytes == 0


def only_chunk(step) -> BlockChunk:
    (chunk,) = step
    return chunk


@pytest.mark.parametrize("reads", [1, 2, 5])
async def test_reads_share_what_memory_there_is_and_none_fails(parts: Parts, reads: int):
    keys = prompt(9)
    await hold(parts, keys, BIG)
    pool = BufferPool(2 * 2 * WINDOW_BYTES)
    async with reader_over(parts, pool) as reader, asyncio.TaskGroup() as tasks:
        reading = [
            tasks.create_task(blocks_of(reader.read(query(keys, BIG)))) for _ in range(reads)
        ]
    expected = [(key, payload_of(key, BIG)) for key in keys]
    assert [read.result() for read in reading] == [(expected, ReadEnd.COMPLETE)] * reads
    assert pool.lent_bytes == 0


async def test_a_reader_that_leaves_takes_its_reads_with_it(parts: Parts, dram: GatedStore):
    keys = prompt(12)
    await hold(parts, keys, BIG)
    pool = BufferPool(1 << 30)
    async with reader_over(parts, pool) as reader:
        async with aclosing(reader.read(query(keys, BIG))) as steps:
            await anext(steps)
            assert pool.lent_bytes > 0
        assert dram.under_way == 0
        await asyncio.sleep(0)
        assert pool.lent_bytes == 0


async def test_memory_is_not_given_back_while_a_store_writes_into_it():
    store = StubbornStore()
    parts = parts_over({Tier.DRAM: store})
    keys = prompt(3)
    await hold(parts, keys)
    store.gate.clear()
    pool = BufferPool(SMALLEST_BYTES)
    async with reader_over(parts, pool) as reader, asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(blocks_of(reader.read(query(keys))))
        await store.begun.acquire()
        for _ in range(3):  # a caller may be told so more than once
            reading.cancel()
            await asyncio.sleep(0)
            assert pool.lent_bytes == SMALLEST_BYTES
        store.gate.set()
    assert pool.lent_bytes == 0


async def test_a_read_that_is_cancelled_while_it_waits_for_memory_leaves_no_trace(parts: Parts):
    keys = prompt(3)
    await hold(parts, keys)
    pool = BufferPool(SMALLEST_BYTES)
    lease = await pool.lend(1)
    async with reader_over(parts, pool) as reader, asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(blocks_of(reader.read(query(keys))))
        await asyncio.sleep(0)
        reading.cancel()
    lease.release()
    assert pool.try_lend(SMALLEST_BYTES) is not None


async def test_what_was_read_of_what_was_asked_for_is_the_hit_ratio(parts: Parts):
    keys = prompt(4)
    await hold(parts, keys[:3])
    async with reader_over(parts) as reader:
        assert parts.hits.ratios() == {Tier.HBM: 0, Tier.DRAM: 0, Tier.SSD: 0}
        _, end = await blocks_of(reader.read(query(keys)))
    assert end is ReadEnd.MISS
    assert parts.hits.ratios() == {Tier.HBM: 0, Tier.DRAM: 0.75, Tier.SSD: 0}


@pytest.mark.parametrize(
    ("count", "size_bytes", "bytes_max", "lengths"),
    [
        (0, 10, 100, []),
        (5, 10, 20, [2, 2, 1]),
        (5, 10, 29, [2, 2, 1]),
        (2, 10, 9, [1, 1]),
        (2, 10, 0, [1, 1]),
    ],
)
def test_a_window_has_as_many_blocks_as_fit(count, size_bytes, bytes_max, lengths):
    refs = [BlockRef(b"n", b"k", b"", Tier.DRAM, at, 0, size_bytes) for at in range(count)]
    windows = list(windows_of(refs, bytes_max))
    assert [len(window) for window in windows] == lengths
    assert [ref for window in windows for ref in window] == refs


def test_a_chunk_has_a_bound():
    assert CHUNK_BYTES_MAX <= 1024 * 1024
