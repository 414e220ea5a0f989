"""Tests of `cachenode.store_watch`."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cachenode.recovery import Recovery
from cachenode.store import ScanPart, StoreCheck
from cachenode.store_watch import StoreWatch
from hearthkv.core.errors import StoreUnavailableError
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore
from tests.node_rig import Parts, hold, parts_over, prompt


class Advised(MemoryStore):
    """A store that works, and should be set up otherwise."""

    async def check(self) -> StoreCheck:
        look = await super().check()
        return StoreCheck(look.trouble, look.is_same, advice="" if look.is_same else "mend it")


class OneCutScan(MemoryStore):
    """A store that leaves during its first scan."""

    is_cut = True

    async def scan(self) -> AsyncIterator[ScanPart]:
        if self.is_cut:
            self.is_cut = False
            raise StoreUnavailableError("left in the middle")
        async for part in super().scan():
            yield part


class Looked(MemoryStore):
    """A store that tells when it is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: asyncio.Queue[None] = asyncio.Queue()

    async def check(self) -> StoreCheck:
        self.looks.put_nowait(None)
        return await super().check()


def watch_over(store: MemoryStore) -> tuple[Parts, StoreWatch]:
    parts = parts_over({store.tier: store})
    recovery = Recovery(
        parts.catalog, parts.stores.by_tier, clock=parts.clock, telemetry=parts.telemetry
    )
    return parts, StoreWatch(parts.stores, recovery, parts.telemetry)


@pytest.fixture
def dram() -> MemoryStore:
    return MemoryStore(Tier.DRAM)


def blocks(parts: Parts) -> int:
    return parts.catalog.usage()[0].blocks


async def test_a_store_that_is_well_is_left_alone(dram: MemoryStore):
    parts, watch = watch_over(dram)
    await watch.look()
    await hold(parts, prompt(3))
    await watch.look()
    assert (blocks(parts), parts.catalog.trouble(Tier.DRAM)) == (3, "")


async def test_a_store_that_is_away_is_in_trouble_and_comes_back_with_its_blocks(dram):
    parts, watch = watch_over(dram)
    await watch.look()
    await hold(parts, prompt(3))
    dram.break_down()
    await watch.look()
    assert parts.catalog.trouble(Tier.DRAM) == "the store does not answer"
    dram.heal()
    await watch.look()
    assert (blocks(parts), parts.catalog.trouble(Tier.DRAM)) == (3, "")


async def test_a_store_that_was_emptied_loses_its_blocks(dram: MemoryStore):
    parts, watch = watch_over(dram)
    await watch.look()
    await hold(parts, prompt(3))
    dram.empty()
    await watch.look()
    assert (blocks(parts), parts.catalog.trouble(Tier.DRAM)) == (0, "")
    assert parts.meters.value("cachenode_lost_blocks_total", cause="store_replaced") == 3


async def test_a_store_that_left_during_its_scan_is_scanned_again():
    store = OneCutScan()
    parts, watch = watch_over(store)
    await watch.look()
    assert parts.catalog.trouble(Tier.DRAM) == "left in the middle"
    await watch.look()
    assert parts.catalog.trouble(Tier.DRAM) == ""


async def test_advice_is_passed_on(caplog):
    _, watch = watch_over(Advised())
    await watch.look()
    await watch.look()
    assert caplog.text.count("StoreAdvised tier=dram advice='mend it'") == 1


async def test_a_doubt_has_the_stores_looked_at_at_once():
    store = Looked()
    parts, watch = watch_over(store)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(watch.run())
        parts.stores.doubt.set()
        await store.looks.get()
        assert not parts.stores.doubt.is_set()
        parts.stores.doubt.set()
        await store.looks.get()
        running.cancel()
