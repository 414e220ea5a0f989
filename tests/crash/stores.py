"""The real stores under a node that is killed, opened the same way before and after."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cachenode.disk import Disk
from cachenode.dram_store import DramStore
from cachenode.ssd_store import SsdStore
from cachenode.store import BlockStore
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.block_io import WriteStart, WriteStatus
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.direct_path import ReservedCopy, ReserveQuery, ThroughNode
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from hearthkv.datapath.redis_blocks import NamedWrite
from hearthkv.datapath.redis_names import RedisNames
from hearthkv.datapath.redis_place import RedisPlace, parse_place
from hearthkv.datapath.redis_server import RedisServer
from tests.node_rig import SPEC, Rig, header_of, open_node, payload_of
from tests.slab_rig import slab_files

DEADLINE_S = 5
NODE_ID = NodeId("node-a")
NAMES = RedisNames(NODE_ID)


@dataclass(frozen=True)
class Stage:
    """A node, and how to open the stores under it a second time."""

    rig: Rig
    place: RedisPlace
    open_stores: Mapping[Tier, Callable[[], BlockStore]]

    async def write_directly(self, keys: Sequence[bytes]) -> list[WriteStatus]:
        """Write as a client on the node's host does, as far as the node lets it."""
        checksums = tuple(header_of(key, b"").checksum for key in keys)
        query = ReserveQuery(b"", WriteStart(SPEC, None), PackedKeys.join(keys), b"", checksums)
        reservation = self.rig.node.reserve(query)
        outcomes = [each for each in reservation.outcomes if not isinstance(each, ThroughNode)]
        writes = []
        for key, checksum, outcome in zip(keys, checksums, outcomes, strict=False):
            if isinstance(outcome, ReservedCopy):
                frame = BlockFrame(SPEC, key, b"", checksum, outcome.sequence)
                name = NAMES.reserved(SPEC.namespace_id, key, outcome.sequence)
                ttl_ms = round(reservation.ttl_s * 1000)
                writes.append(NamedWrite(name, frame, payload_of(key), ttl_ms))
        if not writes:
            return [each for each in outcomes if isinstance(each, WriteStatus)]
        server = RedisServer(self.place, deadline_s=DEADLINE_S)
        await server.put(writes)
        server.close()
        held = iter(await self.rig.node.commit(reservation.reservation_id))
        return [each if isinstance(each, WriteStatus) else next(held) for each in outcomes]

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
        return DramStore([redis_url], node_id=NODE_ID, epoch=epoch, deadline_s=DEADLINE_S)

    def ssd() -> BlockStore:
        return SsdStore(slab_files(folder), deadline_s=DEADLINE_S)

    claimed = Disk(folder)
    claimed.claim()
    stores = {Tier.DRAM: dram(), Tier.SSD: ssd()}
    try:
        async with open_node(
            stores, dram_blocks=dram_blocks, ssd_blocks=ssd_blocks, epoch=epoch
        ) as rig:
            yield Stage(rig, parse_place(redis_url), {Tier.DRAM: dram, Tier.SSD: ssd})
    finally:
        for store in stores.values():
            await store.close()
        claimed.let_go()
