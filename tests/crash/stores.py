"""The real stores under a node that is killed, opened the same way before and after."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cachenode.disk import Disk
from cachenode.dram_store import DramStore
from cachenode.ssd_store import SsdStore
from cachenode.store import BlockStore
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from tests.node_rig import Rig, open_node
from tests.slab_rig import slab_files

DEADLINE_S = 5


@dataclass(frozen=True)
class Stage:
    """A node, and how to open the stores under it a second time."""

    rig: Rig
    open_stores: Mapping[Tier, Callable[[], BlockStore]]

    async def stored_frames(self, tier: Tier) -> list[BlockFrame]:
        """Frames of all copies that a store really holds, as another start would find them."""
        store = self.open_stores[tier]()
        frames = [frame async for part in store.scan() for frame in part.frames]
        await store.close()
        return frames


@asynccontextmanager
async def node_over(
    redis_url: str, folder: Path, *, epoch: int, dram_blocks: int, ssd_blocks: int
) -> AsyncIterator[Stage]:
    """Run a node over a Redis and a folder."""

    def dram() -> BlockStore:
        return DramStore([redis_url], node_id=NodeId("node-a"), epoch=epoch, deadline_s=DEADLINE_S)

    def ssd() -> BlockStore:
        return SsdStore(slab_files(folder), deadline_s=DEADLINE_S)

    claimed = Disk(folder)
    claimed.claim()
    stores = {Tier.DRAM: dram(), Tier.SSD: ssd()}
    try:
        async with open_node(
            stores, dram_blocks=dram_blocks, ssd_blocks=ssd_blocks, epoch=epoch
        ) as rig:
            yield Stage(rig, {Tier.DRAM: dram, Tier.SSD: ssd})
    finally:
        for store in stores.values():
            await store.close()
        claimed.let_go()
