"""Tests of `cachenode.tier_mover`."""

import asyncio
from collections.abc import Sequence

import pytest

from cachenode.tier_mover import TierMover
from hearthkv.core.block_io import DropNamespace
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.errors import StoreError, StoreFullError, StoreUnavailableError
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
