"""Tests of `cachenode.recovery`."""

from collections.abc import AsyncIterator

import pytest

from cachenode.recovery import Recovery
from cachenode.store import ScanPart
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import StoreUnavailableError
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, Parts, hold, parts_over, prompt

KEYS = prompt(4)


class CutScan(MemoryStore):
    """A store that leaves in the middle of every scan."""

    async def scan(self) -> AsyncIterator[ScanPart]:
        async for part in super().scan():
            yield part
            raise StoreUnavailableError("left in the middle")


@pytest.fixture
def dram() -> MemoryStore:
    return MemoryStore(Tier.DRAM)


def fresh(*stores: MemoryStore) -> tuple[Parts, Recovery]:
    by_tier = {store.tier: store for store in stores}
    parts = parts_over(by_tier)
    return parts, Recovery(parts.catalog, by_tier, clock=parts.clock, telemetry=parts.telemetry)


def matched(parts: Parts) -> int:
    return parts.catalog.match(SPEC.namespace_id, PackedKeys.join(KEYS)).total


async def test_a_node_that_starts_finds_what_its_stores_hold(dram: MemoryStore):
    await hold(fresh(dram)[0], KEYS)
    parts, recovery = fresh(dram)
    assert recovery.is_due(Tier.DRAM)
    await recovery.restore_all()
    assert matched(parts) == 4
    assert parts.catalog.usage()[0].used_bytes == dram.used_bytes
    assert not recovery.is_due(Tier.DRAM)


async def test_a_copy_without_its_parent_is_not_held(dram: MemoryStore, caplog):
    caplog.set_level("INFO")
    refs = await hold(fresh(dram)[0], KEYS)
    await dram.erase(refs[1:2])
    parts, recovery = fresh(dram)
    await recovery.restore_all()
    assert matched(parts) == 1
    assert "CatalogRestored blocks=1 orphans=2 duplicates=0 removed=0" in caplog.text


async def test_a_store_that_does_not_answer_is_in_trouble(dram: MemoryStore):
    dram.break_down()
    parts, recovery = fresh(dram)
    await recovery.restore_all()
    assert parts.catalog.trouble(Tier.DRAM) == "the store does not answer"
    assert recovery.is_due(Tier.DRAM)


async def test_a_store_that_leaves_during_its_scan_is_in_trouble():
    store = CutScan()
    await hold(fresh(store)[0], KEYS)
    parts, recovery = fresh(store)
    await recovery.restore_all()
    assert parts.catalog.trouble(Tier.DRAM) == "left in the middle"
    assert recovery.is_due(Tier.DRAM)
    with pytest.raises(StoreUnavailableError):
        await recovery.readmit(Tier.DRAM)
    assert recovery.is_due(Tier.DRAM)


async def test_a_store_that_comes_back_keeps_what_it_still_has(dram: MemoryStore):
    parts, recovery = fresh(dram)
    refs = await hold(parts, KEYS)
    await dram.erase(refs[2:])
    await recovery.readmit(Tier.DRAM)
    parts.stores.heal(Tier.DRAM)
    assert matched(parts) == 2
    assert parts.catalog.usage()[0].used_bytes == dram.used_bytes
