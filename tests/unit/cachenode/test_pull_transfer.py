"""Tests of `cachenode.pull_transfer`: windows, their memory, and what becomes of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from cachenode.block_writer import BlockWriter
from cachenode.buffer_pool import BufferPool
from cachenode.pull_transfer import WINDOW_BYTES, PullTransfer
from hearthkv.client.deadline import Deadline
from hearthkv.client.outcome import MissReason
from hearthkv.client.prefix_assembly import PrefixAssembly
from hearthkv.client.pull_call import PullCall
from hearthkv.core.block_io import BlockChunk, BlockHeader, DropTarget, ReadQuery, WriteStart
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import PeerUnreachableError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.pulls import Lineage, LineageQuery, PullEnd, PullQuery
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore
from tests.node_rig import Parts, header_of, parts_over, payload_of, prompt

# Three blocks make a window.
SPEC = NamespaceSpec(b"n" * 16, 16, WINDOW_BYTES // 3)
LATER = Deadline(1e9)


@dataclass
class Source:
    """A node that has every block, and may fail at one."""

    ends: dict[bytes, MissReason] = field(default_factory=dict)
    is_cut_at: bytes = b""
    before_read: Callable[[], Awaitable[object]] | None = None
    reads: list[int] = field(default_factory=list)
    dropped: list[DropTarget] = field(default_factory=list)

    async def lineage(self, query: LineageQuery) -> Lineage:
        return Lineage(None, PackedKeys(b""))

    async def read(self, query: ReadQuery, assembly: PrefixAssembly, deadline: Deadline) -> None:
        self.reads.append(query.first_block)
        if self.before_read is not None:
            await self.before_read()
        for key in query.keys:
            if key == self.is_cut_at:
                raise PeerUnreachableError("gone in the middle")
            if key in self.ends:
                assembly.give_up(self.ends[key])
                return
            header = header_of(key, b"", SPEC)
            told = BlockHeader(key, b"", header.size_bytes, header.checksum, Tier.DRAM)
            assembly.take(BlockChunk(told, payload_of(key, SPEC)))

    async def drop(self, target: DropTarget) -> int:
        self.dropped.append(target)
        raise PeerUnreachableError("gone now")

    def pull(self, query: PullQuery, limit_s: float) -> PullCall:
        raise AssertionError("nobody asks for that")


@dataclass
class Bench:
    parts: Parts
    pool: BufferPool
    transfer: PullTransfer
    stored: list[int]
    keys: list[bytes]

    def held(self) -> int:
        return self.parts.catalog.held_blocks(SPEC.namespace_id, PackedKeys.join(self.keys))


@asynccontextmanager
async def bench(
    source: Source, blocks: int = 8, *, memory_bytes: int = 64 * WINDOW_BYTES
) -> AsyncIterator[Bench]:
    parts = parts_over({Tier.DRAM: MemoryStore(Tier.DRAM)}, blocks_max=1 << 30)
    pool, stored, keys = BufferPool(memory_bytes), [], prompt(blocks)
    async with asyncio.TaskGroup() as tasks:
        writer = BlockWriter(
            parts.catalog,
            parts.stores,
            tasks=tasks,
            pool=BufferPool(1 << 30),
            telemetry=parts.telemetry,
        )
        transfer = PullTransfer(
            source,
            PackedKeys.join(keys),
            WriteStart(SPEC, None),
            writer=writer,
            pool=pool,
            tasks=tasks,
            on_stored=stored.append,
        )
        yield Bench(parts, pool, transfer, stored, keys)


async def test_blocks_come_in_windows_and_the_memory_goes_back():
    source = Source()
    async with bench(source) as b:
        assert await b.transfer.run(0, LATER) is None
        assert (source.reads, b.stored, b.held()) == ([0, 3, 6], [3, 3, 2], 8)
        await asyncio.sleep(0)
        assert b.pool.lent_bytes == 0


async def test_a_second_read_begins_when_the_first_is_over_and_before_that_is_stored():
    under_way, began = 0, []

    async def note() -> None:
        nonlocal under_way
        under_way += 1
        began.append((under_way, sum(b.stored)))
        await asyncio.sleep(0)
        under_way -= 1

    async with bench(Source(before_read=note)) as b:
        assert await b.transfer.run(0, LATER) is None
    assert began[:2] == [(1, 0), (1, 0)]


async def test_with_memory_for_one_window_they_come_one_by_one():
    source = Source()
    async with bench(source, memory_bytes=WINDOW_BYTES) as b:
        assert await b.transfer.run(0, LATER) is None
        assert b.held() == 8


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        (MissReason.NOT_HELD, PullEnd.MISS),
        (MissReason.LOST, PullEnd.MISS),
        (MissReason.TIER_UNAVAILABLE, PullEnd.UNAVAILABLE),
        (MissReason.TIMEOUT, PullEnd.UNAVAILABLE),
    ],
)
async def test_what_came_before_the_end_is_kept(reason: MissReason, end: PullEnd):
    source = Source(ends={prompt(8)[4]: reason})
    async with bench(source) as b:
        assert await b.transfer.run(0, LATER) is end
        assert (b.stored, b.held()) == ([3, 1], 4)


async def test_a_damaged_block_is_dropped_at_the_source_if_that_still_answers():
    source = Source(ends={prompt(8)[4]: MissReason.CORRUPT})
    async with bench(source) as b:
        assert await b.transfer.run(0, LATER) is PullEnd.MISS
        assert (b.held(), len(source.dropped)) == (4, 1)


async def test_a_source_that_is_cut_leaves_what_came():
    async with bench(Source(is_cut_at=prompt(8)[7])) as b:
        assert await b.transfer.run(0, LATER) is PullEnd.UNAVAILABLE
        assert b.held() == 7


async def test_a_parent_that_goes_meanwhile_ends_it_for_want_of_room():
    async with bench(Source()) as b:
        assert await b.transfer.run(3, LATER) is PullEnd.NO_ROOM
        assert b.held() == 0


async def test_who_gives_up_leaves_no_memory_behind_and_no_room_reserved():
    begun = asyncio.Event()

    async def stall() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with bench(Source(before_read=stall)) as b:
        running = asyncio.create_task(b.transfer.run(0, LATER))
        await begun.wait()
        running.cancel()
        await asyncio.wait({running})
        async with asyncio.timeout(20):
            while b.pool.lent_bytes:  # noqa: ASYNC110 - reads that end give it back by themselves
                await asyncio.sleep(0)
        assert [usage.reserved_bytes for usage in b.parts.catalog.usage()] == [0, 0]


async def test_sizes_that_came_to_be_others_end_it():
    async with bench(Source()) as b:
        other = NamespaceSpec(SPEC.namespace_id, 16, 1000)
        b.parts.catalog.plan_write(
            other, key=b"o" * 16, parent_key=b"", size_bytes=1000, checksum=1
        )
        assert await b.transfer.run(0, LATER) is PullEnd.UNAVAILABLE
