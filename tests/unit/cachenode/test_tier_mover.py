"""Tests of `cachenode.tier_mover`."""

import asyncio
from collections.abc import Sequence

import pytest

from cachenode.plans import Move
from cachenode.store import CopyRead, CopyWrite
from cachenode.tier_mover import BATCH_BYTES, TierMover, batches_of
from hearthkv.core.block_io import DropNamespace
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.errors import StoreError, StoreFullError, StoreUnavailableError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, STORED_BYTES, Parts, hold, parts_over, prompt


class Erased(MemoryStore):
    """A store that tells what it erases."""

    def __init__(self) -> None:
        super().__init__()
        self.erased: asyncio.Queue[Sequence[BlockRef]] = asyncio.Queue()

    async def erase(self, refs: Sequence[BlockRef]) -> None:
        await super().erase(refs)
        self.erased.put_nowait(refs)


@pytest.fixture
def stores() -> dict[Tier, MemoryStore]:
    return {tier: MemoryStore(tier) for tier in (Tier.DRAM, Tier.SSD)}


@pytest.fixture
def parts(stores: dict[Tier, MemoryStore]) -> Parts:
    return parts_over(stores, blocks_max=10)


@pytest.fixture
def mover(parts: Parts) -> TierMover:
    return TierMover(parts.catalog, parts.stores, parts.telemetry)


async def test_what_was_dropped_is_erased(parts: Parts, stores, mover: TierMover):
    await hold(parts, prompt(4))
    parts.catalog.drop(DropNamespace(SPEC.namespace_id))
    assert stores[Tier.DRAM].used_bytes == 4 * STORED_BYTES
    await mover.work()
    assert stores[Tier.DRAM].used_bytes == 0 == parts.catalog.usage()[0].used_bytes


async def test_what_can_not_be_erased_waits_until_the_store_heals(parts, stores, mover):
    await hold(parts, prompt(4))
    parts.catalog.drop(DropNamespace(SPEC.namespace_id))
    stores[Tier.DRAM].break_down()
    await mover.work()
    assert parts.catalog.usage()[0].used_bytes == 4 * STORED_BYTES
    stores[Tier.DRAM].heal()
    parts.stores.heal(Tier.DRAM)
    await mover.work()
    assert parts.catalog.usage()[0].used_bytes == 0


@pytest.mark.parametrize(
    "error", [StoreFullError("no space to note it"), StoreUnavailableError("gone")], ids=repr
)
async def test_a_store_that_does_not_erase_is_not_asked_without_a_pause(
    parts, stores, mover, error: StoreError
):
    await hold(parts, prompt(4))
    parts.catalog.drop(DropNamespace(SPEC.namespace_id))
    stores[Tier.DRAM].trouble = error
    async with asyncio.timeout(20):
        await mover.work()
    assert parts.catalog.usage()[0].used_bytes == 4 * STORED_BYTES
    stores[Tier.DRAM].heal()
    parts.stores.heal(Tier.DRAM)
    await mover.work()
    assert parts.catalog.usage()[0].used_bytes == 0


async def test_blocks_above_the_threshold_move_down(parts: Parts, stores, mover: TierMover):
    await hold(parts, prompt(10))
    await mover.work()
    assert [usage.blocks for usage in parts.catalog.usage()] == [8, 2]
    assert stores[Tier.SSD].used_bytes == 2 * STORED_BYTES
    assert parts.meters.value("cachenode_demoted_blocks_total") == 2


async def test_a_move_into_a_store_that_fails_leaves_the_block(parts, stores, mover):
    await hold(parts, prompt(10))
    stores[Tier.SSD].break_down()
    await mover.work()
    assert parts.catalog.usage()[1].blocks == 0
    assert parts.meters.value("cachenode_demoted_blocks_total") == 0
    # With no tier below it, DRAM sheds its coldest tails instead.
    assert parts.meters.value("cachenode_evicted_blocks_total") > 0
    assert parts.catalog.match(SPEC.namespace_id, PackedKeys.join(prompt(10))).total == 8


async def test_the_background_work_wakes_when_there_is_something_to_do():
    store = Erased()
    parts = parts_over({Tier.DRAM: store})
    await hold(parts, prompt(4))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(TierMover(parts.catalog, parts.stores, parts.telemetry).run())
        parts.catalog.drop(DropNamespace(SPEC.namespace_id))
        parts.stores.work.set()
        assert len(await store.erased.get()) == 4
        running.cancel()


class Batches(MemoryStore):
    """A store that keeps how many blocks each call brought."""

    def __init__(self, tier: Tier) -> None:
        super().__init__(tier)
        self.gets: list[int] = []
        self.puts: list[int] = []

    async def get(self, reads: Sequence[CopyRead]) -> list[StoreError | None]:
        self.gets.append(len(reads))
        return await super().get(reads)

    async def put(self, writes: Sequence[CopyWrite]) -> list[StoreError | None]:
        self.puts.append(len(writes))
        return await super().put(writes)


@pytest.fixture
def batching() -> dict[Tier, Batches]:
    return {tier: Batches(tier) for tier in (Tier.DRAM, Tier.SSD)}


async def test_small_blocks_move_by_one_call_a_store(batching: dict[Tier, Batches]):
    parts = parts_over(batching, blocks_max=40)
    await hold(parts, prompt(40))
    batching[Tier.DRAM].gets.clear()
    mover = TierMover(parts.catalog, parts.stores, parts.telemetry)
    await mover.work()
    assert (batching[Tier.DRAM].gets, batching[Tier.SSD].puts) == ([6], [6])
    assert mover.moved_bytes == 6 * SPEC.block_bytes
    moved_bytes = parts.meters.value("cachenode_moved_bytes_total", source="dram", target="ssd")
    assert moved_bytes == mover.moved_bytes


async def test_a_batch_that_fails_in_part_moves_what_it_can(batching: dict[Tier, Batches]):
    parts = parts_over(batching, blocks_max=40)
    refs = await hold(parts, prompt(40))
    parts.catalog.touch(SPEC.namespace_id, refs[-1].key)  # so the tail is the coldest
    batching[Tier.DRAM].damage(refs[-3])
    await TierMover(parts.catalog, parts.stores, parts.telemetry).work()
    dram, ssd = parts.catalog.usage()
    assert dram.used_bytes == batching[Tier.DRAM].used_bytes
    assert ssd.used_bytes == batching[Tier.SSD].used_bytes
    assert (dram.reserved_bytes, ssd.reserved_bytes) == (0, 0)
    # The block is lost with those that hang on it, and the rest is held.
    assert parts.catalog.match(SPEC.namespace_id, PackedKeys.join(prompt(40))).total == 37


async def test_what_is_dropped_while_it_moves_is_erased_from_its_target(parts: Parts, stores):
    await hold(parts, prompt(10))
    dropped: list[int] = []

    class Dropping(MemoryStore):
        async def put(self, writes: Sequence[CopyWrite]) -> list[StoreError | None]:
            dropped.append(parts.catalog.drop(DropNamespace(SPEC.namespace_id)))
            return await super().put(writes)

    store = Dropping(Tier.SSD)
    parts.stores.by_tier = {**stores, Tier.SSD: store}
    await TierMover(parts.catalog, parts.stores, parts.telemetry).work()
    assert dropped == [10]
    assert store.used_bytes == 0 == parts.catalog.usage()[1].used_bytes
    assert parts.meters.value("cachenode_demoted_blocks_total") == 0


def test_a_batch_has_neighbours_of_one_kind_and_a_bound():
    def move(namespace: bytes, source: Tier, size_bytes: int) -> Move:
        target = Tier.SSD if source is Tier.DRAM else Tier.DRAM
        return Move(
            BlockRef(namespace, b"k", b"", source, 1, 0, size_bytes),
            BlockRef(namespace, b"k", b"", target, 2, 0, size_bytes),
        )

    half = BATCH_BYTES // 2
    moves = [
        *[move(b"a", Tier.DRAM, half)] * 3,
        *[move(b"b", Tier.DRAM, 10)] * 2,
        *[move(b"b", Tier.SSD, 10)] * 2,
        *[move(b"c", Tier.SSD, 2 * BATCH_BYTES)] * 2,
    ]
    batches = list(batches_of(moves))
    assert [len(batch) for batch in batches] == [2, 1, 2, 2, 1, 1]
    assert [move for batch in batches for move in batch] == moves
    assert list(batches_of([])) == []


async def test_a_namespace_begun_anew_with_other_blocks_takes_no_old_ones(parts, stores, mover):
    await hold(parts, prompt(9))
    moves = parts.catalog.plan_demotions().moves
    assert moves
    parts.catalog.drop(DropNamespace(SPEC.namespace_id))
    await hold(parts, prompt(1, name=5), NamespaceSpec(SPEC.namespace_id, 16, 500))
    await mover._move_all(moves)
    assert stores[Tier.SSD].stored == {}
    await mover.work()
    assert [usage.blocks for usage in parts.catalog.usage()] == [1, 0]
    assert [usage.reserved_bytes for usage in parts.catalog.usage()] == [0, 0]
