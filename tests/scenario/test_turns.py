"""Turns of a session through a real router and real nodes, all in one process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import cachenode.server
import router.server
from cachenode.settings import CacheNodeSettings
from hearthkv.client.kv import HearthKV, connect
from hearthkv.client.outcome import Finished, Loaded, MissReason
from hearthkv.client.settings import ClientSettings
from hearthkv.core.clock import SystemClock
from hearthkv.core.kv_cache_settings import KvCacheSettings
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.routing import PlacementReason
from hearthkv.core.tier import Tier
from router.settings import RouterSettings
from tests.redis_process import RedisProcess

SPEC = NamespaceSpec(b"n" * 16, block_size=4, block_bytes=3 * 1024 * 1024 + 5)
TOKENS = range(22)
BLOCKS = 5
PAYLOADS = [bytes([65 + index]) * SPEC.block_bytes for index in range(BLOCKS)]

ROOMY = KvCacheSettings(cache_capacity_gb=1)
TIGHT = KvCacheSettings(cache_capacity_gb=1, hbm_ratio=0, dram_ratio=0.01, ssd_ratio=0.99)
"""DRAM for three blocks."""

PATIENT = ClientSettings(
    route_s=20, match_s=20, stall_s=20, save_s=20, finish_s=20, cooldown_s=0.05
)


@dataclass(frozen=True)
class Cluster:
    """One router, some nodes, and a client of them."""

    kv: HearthKV
    router_address: str
    folder: Path
    redis: RedisProcess

    @asynccontextmanager
    async def node(
        self, name: str, limits: KvCacheSettings = ROOMY
    ) -> AsyncIterator[cachenode.server.RunningNode]:
        settings = CacheNodeSettings(
            node_id=name,
            listen="127.0.0.1:0",
            engine_url=f"http://{name}",
            routers=[self.router_address],
            redis_urls=[self.redis.url],
            ssd_dir=str(self.folder / name),
            metrics_port=-1,
            drain_s=0,
        )
        async with cachenode.server.running(settings, limits, SystemClock()) as node:
            await until(lambda: self._is_live(name))
            yield node

    async def _is_live(self, name: str) -> bool:
        nodes = await self.kv.list_nodes()
        return any(n.endpoint.node_id == name and n.endpoint.state.value == "live" for n in nodes)

    async def is_known_to_the_client(self) -> bool:
        """Whether the client could do without the router."""
        assert self.kv._routers is not None
        return bool(self.kv._routers.view.nodes)

    async def is_indexed(self, blocks: int) -> bool:
        """Whether the router knows of so many blocks."""
        return sum(node.indexed_blocks for node in await self.kv.list_nodes()) >= blocks


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask until a condition holds."""
    async with asyncio.timeout(30):
        while not await condition():  # noqa: ASYNC110 - the state lies in another process, in life
            await asyncio.sleep(0.01)


@asynccontextmanager
async def a_router() -> AsyncIterator[str]:
    settings = RouterSettings(listen="127.0.0.1:0", metrics_port=-1, drain_s=0)
    async with router.server.running(settings, SystemClock()) as running:
        yield running.address


@pytest.fixture
async def cluster(tmp_path: Path, redis_server: RedisProcess) -> AsyncIterator[Cluster]:
    async with a_router() as address, connect(address, settings=PATIENT) as kv:
        yield Cluster(kv, address, tmp_path, redis_server)


def new_buffer() -> bytearray:
    return bytearray(BLOCKS * SPEC.block_bytes)


async def test_the_next_turn_loads_what_the_last_one_saved(cluster: Cluster):
    async with cluster.node("a"):
        first = await cluster.kv.begin_turn("s", SPEC, TOKENS, cache_hint="reuse")
        assert (first.node_id, first.engine_url) == ("a", "http://a")
        assert (first.reason, first.miss_reason) == (PlacementReason.HOME, MissReason.NOT_HELD)
        first.save(0, PAYLOADS)
        assert await first.finish() == Finished(saved_blocks=BLOCKS, direct_blocks=BLOCKS)
        await until(lambda: cluster.is_indexed(BLOCKS))

        second = await cluster.kv.begin_turn("s", SPEC, [*TOKENS, 7, 8], cache_hint="reuse")
        assert second.matched.total == BLOCKS
        buffer = bytearray(6 * SPEC.block_bytes)
        loaded = await second.load_into(buffer)
        assert (loaded.blocks, loaded.tokens, loaded.miss) == (BLOCKS, 20, MissReason.NOT_HELD)
        assert loaded.direct_blocks == BLOCKS  # all of this runs on one host
        assert buffer[: BLOCKS * SPEC.block_bytes] == b"".join(PAYLOADS)
    assert cluster.kv.stats.hit_ratio == pytest.approx(20 / 46)


async def test_a_prefix_over_both_tiers_is_read_from_both_directly(cluster: Cluster):
    async with cluster.node("a", TIGHT):
        turn = await cluster.kv.begin_turn("s", SPEC, TOKENS)
        turn.save(0, PAYLOADS)
        assert (await turn.finish()).saved_blocks == BLOCKS
        told: list[int] = []

        async def is_all_direct() -> bool:
            """What is being moved while it is read comes through the node instead."""
            buffer = new_buffer()
            told.clear()
            loaded = await turn.load_into(buffer, blocks=BLOCKS, on_progress=told.append)
            assert loaded.blocks == BLOCKS
            assert buffer == b"".join(PAYLOADS)
            return loaded.direct_blocks == BLOCKS and loaded.by_tier.ssd >= 2

        await until(is_all_direct)
        assert told[-1] == BLOCKS


async def test_another_session_with_the_same_prefix_goes_where_it_lies(cluster: Cluster):
    async with cluster.node("a") as holder, cluster.node("b"):
        turn = await cluster.kv.begin_turn("s", SPEC, TOKENS, node=holder.address)
        turn.save(0, PAYLOADS)
        await turn.finish()
        await until(lambda: cluster.is_indexed(BLOCKS))
        for name in range(8):
            other = await cluster.kv.begin_turn(f"t{name}", SPEC, TOKENS, cache_hint="reuse")
            assert (other.node_id, other.matched.total) == ("a", BLOCKS)


async def test_a_node_that_comes_back_has_what_it_had(cluster: Cluster):
    async with cluster.node("a"):
        turn = await cluster.kv.begin_turn("s", SPEC, TOKENS)
        turn.save(0, PAYLOADS)
        assert (await turn.finish()).saved_blocks == BLOCKS
    async with cluster.node("a"):
        await until(lambda: cluster.is_indexed(BLOCKS))
        again = await cluster.kv.begin_turn("s", SPEC, TOKENS)
        buffer = new_buffer()
        loaded = await again.load_into(buffer)
    assert loaded == Loaded(BLOCKS, 20, loaded.by_tier, direct_blocks=BLOCKS)
    assert buffer == b"".join(PAYLOADS)


async def test_without_any_node_a_turn_is_a_miss(cluster: Cluster):
    turn = await cluster.kv.begin_turn("s", SPEC, TOKENS, cache_hint="reuse")
    assert turn.miss_reason is MissReason.NO_NODE
    assert (await turn.load_into(new_buffer())).miss is MissReason.NO_NODE


async def test_a_node_that_left_is_a_miss(cluster: Cluster):
    async with cluster.node("a"):
        turn = await cluster.kv.begin_turn("s", SPEC, TOKENS)
        turn.save(0, PAYLOADS)
        await turn.finish()
        turn = await cluster.kv.begin_turn("s", SPEC, TOKENS)
    loaded = await turn.load_into(new_buffer())
    assert (loaded.blocks, loaded.miss) == (0, MissReason.NODE_UNREACHABLE)
    turn.save(0, PAYLOADS)
    assert (await turn.finish()).miss is MissReason.NODE_UNREACHABLE


async def test_bypass_leaves_nothing_behind(cluster: Cluster):
    async with cluster.node("a") as node:
        turn = await cluster.kv.begin_turn("s", SPEC, TOKENS, cache_hint="bypass")
        turn.save(0, PAYLOADS)
        assert await turn.finish() == Finished(miss=MissReason.BYPASS)
        tiers = (await cluster.kv.describe(node.address)).tiers
    assert [tier.blocks for tier in tiers if tier.tier is not Tier.HBM] == [0, 0]


async def test_when_the_router_dies_turns_go_on(tmp_path: Path, redis_server: RedisProcess):
    async with AsyncExitStack() as router_life:
        address = await router_life.enter_async_context(a_router())
        async with connect(address, settings=PATIENT) as kv:
            cluster = Cluster(kv, address, tmp_path, redis_server)
            async with cluster.node("a"):
                turn = await kv.begin_turn("s", SPEC, TOKENS)
                turn.save(0, PAYLOADS)
                await turn.finish()
                await until(cluster.is_known_to_the_client)
                await router_life.aclose()

                turn = await kv.begin_turn("s", SPEC, TOKENS)
                assert (turn.node_id, turn.reason) == ("a", PlacementReason.HOME)
                assert turn.matched.total == BLOCKS
                buffer = new_buffer()
                assert (await turn.load_into(buffer)).blocks == BLOCKS
                assert buffer == b"".join(PAYLOADS)
