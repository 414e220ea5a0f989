"""The router's index against what a real node holds, after anything may have happened to it."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import cachenode.server
import router.server
from cachenode.node import CacheNode
from cachenode.settings import CacheNodeSettings
from hearthkv.core.block_io import (
    BlockChunk,
    BlockHeader,
    DropBlocks,
    DropNamespace,
    KeysQuery,
    MatchQuery,
    WriteStart,
)
from hearthkv.core.block_key import KeyChain, PackedKeys
from hearthkv.core.checksum import block_checksum
from hearthkv.core.clock import SystemClock
from hearthkv.core.kv_cache_settings import KvCacheSettings
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import TierCounts
from router.settings import RouterSettings
from tests.redis_process import RedisProcess

SPECS = [NamespaceSpec(bytes([size % 251]) * 16, 4, size) for size in (1, 1000, 20_000)]
NOTHING = TierCounts()
PROMPTS = 8
STEPS = 200
TINY = KvCacheSettings(cache_capacity_gb=0.002, hbm_ratio=0, dram_ratio=0.4, ssd_ratio=0.6)
"""So little that blocks move down and leave all the time."""


async def write(node: CacheNode, spec: NamespaceSpec, keys: PackedKeys) -> None:
    async def chunks() -> AsyncIterator[BlockChunk]:
        parent_key = b""
        for key in keys:
            payload = (key * spec.block_bytes)[: spec.block_bytes]
            checksum = block_checksum(spec.namespace_id, key, payload)
            yield BlockChunk(BlockHeader(key, parent_key, len(payload), checksum), payload)
            parent_key = key

    await node.write(WriteStart(spec, None), chunks())


async def play(node: CacheNode, chance: random.Random, queries: list[KeysQuery]) -> None:
    """Do something to a node that changes what it holds, or where."""
    query = chance.choice(queries)
    action = chance.choice(["write"] * 6 + ["drop", "prefetch", "forget"])
    if action == "write":
        spec = next(spec for spec in SPECS if spec.namespace_id == query.namespace_id)
        await write(node, spec, query.keys)
    elif action == "drop":
        at = chance.randrange(len(query.keys))
        node.drop(DropBlocks(query.namespace_id, query.keys.slice(at, at + 1)))
    elif action == "prefetch":
        node.prefetch(query)
    elif chance.random() < 0.1:
        node.drop(DropNamespace(query.namespace_id))


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_router_comes_to_know_just_what_a_node_holds_I6(  # noqa: N802
    tmp_path: Path, redis_server: RedisProcess, seed: int
):
    chance = random.Random(seed)
    queries = [
        KeysQuery(
            spec.namespace_id,
            KeyChain(spec.namespace_id, 4).keys_of([name] * 4 * chance.randint(1, 60)),
        )
        for spec in SPECS
        for name in range(PROMPTS)
    ]
    at_router = RouterSettings(listen="127.0.0.1:0", metrics_port=-1, drain_s=0)
    async with router.server.running(at_router, SystemClock()) as routing:
        settings = CacheNodeSettings(
            node_id="a",
            listen="127.0.0.1:0",
            routers=[routing.address],
            redis_urls=[redis_server.url],
            ssd_dir=str(tmp_path / "ssd"),
            metrics_port=-1,
            drain_s=0,
        )
        async with cachenode.server.running(settings, TINY, SystemClock()) as running:
            for step in range(STEPS):
                await play(running.node, chance, queries)
                if step % 50 == 49:
                    # The router missed something, and asks again while the node goes on.
                    for stream_id, order in routing.cluster.membership.order_resync(
                        running.node.identity.node_id, SystemClock().now()
                    ).answers:
                        routing.watch._streams[stream_id].offer(order)
            await write(running.node, SPECS[0], queries[0].keys)
            async with asyncio.timeout(30):
                while known(routing, queries) != held(running.node, queries):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert any(match.total for match in held(running.node, queries))


def held(node: CacheNode, queries: list[KeysQuery]):
    return [node.match(MatchQuery(query.namespace_id, query.keys)).by_tier for query in queries]


def known(routing: router.server.RunningRouter, queries: list[KeysQuery]):
    found = [routing.cluster.lookup(query) for query in queries]
    return [match[0].matched if match else NOTHING for match in found]
