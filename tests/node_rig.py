"""A cache node in the test's own process, over whatever stores, and a prompt to store in it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from cachenode import events
from cachenode.catalog import Catalog
from cachenode.drain import FindPeers, no_peers
from cachenode.eviction import policy_named
from cachenode.hit_counts import HitCounts
from cachenode.node import MEMORY_BYTES_MAX, CacheNode, NodeIdentity
from cachenode.peer_nodes import OpenPeer
from cachenode.plans import TierLimits, WriteTicket
from cachenode.puller import PullLimits
from cachenode.store import BlockStore, CopyWrite
from cachenode.tier_stores import TierStores
from hearthkv.codec.block import chunks_of
from hearthkv.core.block_frame import FRAME_BYTES, frame_of
from hearthkv.core.block_io import (
    BlockChunk,
    BlockHeader,
    KeysQuery,
    MatchQuery,
    ReadEnd,
    ReadQuery,
    WriteStart,
    WriteStatus,
)
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.checksum import block_checksum
from hearthkv.core.clock import Clock, ManualClock
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier, TierUsage
from hearthkv.metrics import PrometheusMeters
from hearthkv.telemetry import Telemetry

SPEC = NamespaceSpec(b"n" * 16, 16, 1000)
STORED_BYTES = SPEC.block_bytes + FRAME_BYTES
BLOCKS_MAX = 1 << 30


def prompt(blocks: int, name: int = 0) -> list[bytes]:
    """Keys of a prompt; prompts of two names share no block."""
    return [bytes((name, number // 256, number % 256)) + b"k" * 13 for number in range(blocks)]


def payload_of(key: bytes, spec: NamespaceSpec = SPEC) -> bytes:
    """The bytes that belong to a key, unlike those of any other."""
    return (key * (spec.block_bytes // len(key) + 1))[: spec.block_bytes]


def header_of(key: bytes, parent_key: bytes, spec: NamespaceSpec = SPEC) -> BlockHeader:
    checksum = block_checksum(spec.namespace_id, key, payload_of(key, spec))
    return BlockHeader(key, parent_key, spec.block_bytes, checksum)


class Rig:
    """A node, and short words for what tests do with it."""

    def __init__(self, node: CacheNode, meters: PrometheusMeters) -> None:
        self.node = node
        self.meters = meters

    async def write(
        self, keys: Sequence[bytes], *, parent_key: bytes = b"", session: str | None = None
    ) -> list[WriteStatus]:
        async def chunks() -> AsyncIterator[BlockChunk]:
            before = parent_key
            for key in keys:
                for chunk in chunks_of(header_of(key, before), payload_of(key)):
                    yield chunk
                before = key

        start = WriteStart(SPEC, None if session is None else SessionId(session))
        return await self.node.write(start, chunks())

    async def write_slowly(self, keys: Sequence[bytes]) -> list[WriteStatus]:
        """Write one block after the other, with all background work in between."""
        statuses = []
        for key, before in zip(keys, [b"", *keys], strict=False):
            statuses += await self.write([key], parent_key=before)
            await self.node.settle()
        return statuses

    async def read(
        self, keys: Sequence[bytes], *, session: str | None = None
    ) -> tuple[int, ReadEnd]:
        """How many blocks came, each byte for byte, and why there were no more."""
        session_id = None if session is None else SessionId(session)
        query = ReadQuery(SPEC.namespace_id, PackedKeys.join(keys), 0, session_id)
        count = 0
        async with aclosing(self.node.read(query)) as steps:
            async for step in steps:
                if isinstance(step, ReadEnd):
                    return count, step
                for chunk in step:
                    assert chunk.header is not None
                    assert chunk.header.key == keys[count]
                    assert bytes(chunk.data) == payload_of(keys[count])
                    count += 1
        raise AssertionError("the read has no end")

    def match(self, keys: Sequence[bytes]) -> int:
        query = MatchQuery(SPEC.namespace_id, PackedKeys.join(keys))
        return self.node.match(query).by_tier.total

    def prefetch(self, keys: Sequence[bytes]) -> int:
        return self.node.prefetch(KeysQuery(SPEC.namespace_id, PackedKeys.join(keys)))

    def usage(self, tier: Tier) -> TierUsage:
        return next(usage for usage in self.node.usage() if usage.tier is tier)

    def blocks(self) -> tuple[int, int]:
        """Blocks in DRAM and on SSD."""
        return self.usage(Tier.DRAM).blocks, self.usage(Tier.SSD).blocks


@asynccontextmanager
async def open_node(
    stores: Mapping[Tier, BlockStore],
    *,
    dram_blocks: int = BLOCKS_MAX,
    ssd_blocks: int = BLOCKS_MAX,
    clock: Clock | None = None,
    epoch: int = 1,
    is_parallel_read: bool = True,
    read_bytes_max: int = MEMORY_BYTES_MAX,
    is_prefetch_on: bool = True,
    node_id: str = "node-a",
    address: str = "",
    pull_limits: PullLimits | None = None,
    open_peer: OpenPeer | None = None,
    find_peers: FindPeers = no_peers,
) -> AsyncIterator[Rig]:
    """
    Run a node until the body ends; then it ends as abruptly as a process that was killed.

    Nothing happens in the background: tests say when (`settle`, `look_at_stores`, `tick`). Its
    limits are in blocks of SPEC, and its threshold is 0.85.
    """
    meters = PrometheusMeters(events.METRICS)
    catalog = Catalog(
        dram=TierLimits(dram_blocks * STORED_BYTES, FRAME_BYTES),
        ssd=TierLimits(ssd_blocks * STORED_BYTES, FRAME_BYTES),
        offload_threshold=0.85,
        policy=policy_named("lru_with_media_priority"),
    )
    async with asyncio.TaskGroup() as tasks:
        node = CacheNode(
            identity=NodeIdentity(
                node_id=NodeId(node_id), epoch=epoch, version="0", address=address
            ),
            catalog=catalog,
            stores=stores,
            clock=clock or ManualClock(),
            telemetry=Telemetry(logging.getLogger("test"), meters),
            tasks=tasks,
            is_parallel_read=is_parallel_read,
            read_bytes_max=read_bytes_max,
            is_prefetch_on=is_prefetch_on,
            pull_limits=pull_limits,
            open_peer=open_peer,
            find_peers=find_peers,
        )
        await node.start()
        try:
            yield Rig(node, meters)
        finally:
            node.stop()


@dataclass(frozen=True)
class Parts:
    """What the beats of a node share, without the node."""

    catalog: Catalog
    stores: TierStores
    hits: HitCounts
    telemetry: Telemetry
    meters: PrometheusMeters
    clock: ManualClock


def parts_over(stores: Mapping[Tier, BlockStore], *, blocks_max: int = BLOCKS_MAX) -> Parts:
    """The parts of a node whose tiers hold `blocks_max` blocks of SPEC each."""
    meters = PrometheusMeters(events.METRICS)
    telemetry = Telemetry(logging.getLogger("test"), meters)
    clock = ManualClock()
    limits = TierLimits(blocks_max * STORED_BYTES, FRAME_BYTES)
    catalog = Catalog(
        dram=limits,
        ssd=limits,
        offload_threshold=0.85,
        policy=policy_named("lru_with_media_priority"),
    )
    tier_stores = TierStores(catalog, stores, clock=clock, telemetry=telemetry)
    return Parts(catalog, tier_stores, HitCounts(), telemetry, meters, clock)


async def hold(
    parts: Parts, keys: Sequence[bytes], spec: NamespaceSpec = SPEC, *, parent_key: bytes = b""
) -> list[BlockRef]:
    """Store a prompt as a write would, and return its copies."""
    refs = []
    for key, before in zip(keys, [parent_key, *keys], strict=False):
        header = header_of(key, before, spec)
        ticket = parts.catalog.plan_write(
            spec,
            key=key,
            parent_key=before,
            size_bytes=spec.block_bytes,
            checksum=header.checksum,
        )
        assert isinstance(ticket, WriteTicket)
        write = CopyWrite(frame_of(spec, ticket.target), payload_of(key, spec))
        assert await parts.stores.store(ticket.target.tier, [write]) == [True]
        parts.catalog.commit_write(ticket)
        refs.append(ticket.target)
    return refs
