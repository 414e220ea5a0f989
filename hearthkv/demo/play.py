"""
Plays the demo: a session without the cache, with it, and then through two misfortunes.

Before a cluster that somebody else has started there are no misfortunes.

The caller is told of every turn as it ends; nothing is printed here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import aiohttp

from hearthkv.client.kv import connect
from hearthkv.core.clock import Clock, SystemClock
from hearthkv.core.errors import PeerError
from hearthkv.core.kv_cache_settings import GIB, KvCacheSettings
from hearthkv.core.routing import CacheHint, NodeState, NodeStatus
from hearthkv.demo.agent import Agent, Router, Session, SessionSize
from hearthkv.demo.cluster_plan import LocalNode
from hearthkv.demo.engine_client import EngineClient
from hearthkv.demo.local_cluster import LocalCluster
from hearthkv.demo.script import message
from hearthkv.demo.session_file import load_texts
from hearthkv.demo.turn_record import DemoResult, SessionResult, TurnRecord

TOKEN_BYTES = 46_080
"""KV of one token of the demo's model: 30 layers, 3 heads of 64, keys and values, float32."""

# Bytes of each tier, as multiples of the session's KV. Neither the engine's pool nor Redis can
# hold all of it, so that every tier has something to do; Redis and the SSD together can.
HBM_SHARE, DRAM_SHARE, SSD_SHARE = 0.6, 0.8, 1.6

NODE_GONE_S = 15.0
"""Seconds within which the router must have noticed that a node is gone."""

NODE_GONE_POLL_S = 0.05


class Watcher(Protocol):
    """Is told how a demo goes on."""

    def begin(self, title: str, turns: int) -> None:
        """A part of the demo begins, of so many turns."""
        ...

    def advance(self, turn: TurnRecord) -> None:
        """A turn is over."""
        ...


class Servers(Protocol):
    """The servers that a demo plays with."""

    def node(self, node_id: str) -> LocalNode:
        """Return a node by its id."""
        ...

    async def kill(self, name: str) -> None:
        """End a server at once."""
        ...

    async def restart(self, name: str) -> None:
        """Stop a server and start it again."""
        ...


def demo_cache(tokens: int) -> KvCacheSettings:
    """Return a cache so small that a session of so many tokens has to use all its tiers."""
    total = HBM_SHARE + DRAM_SHARE + SSD_SHARE
    return KvCacheSettings(
        cache_capacity_gb=total * tokens * TOKEN_BYTES / GIB,
        hbm_ratio=HBM_SHARE / total,
        dram_ratio=DRAM_SHARE / total,
        ssd_ratio=SSD_SHARE / total,
    )


async def play_demo(
    agent: Agent, servers: Servers, size: SessionSize, watcher: Watcher
) -> DemoResult:
    """
    Play the whole demo.

    Raises:
        PeerError: If no engine answers, or the router does not notice a dead node.
        StartupError: If the engine does not come up again.
    """
    session = Session(agent, "demo-with-cache", CacheHint.REUSE)
    played = await play_twice(agent, session, size, watcher)
    follow_ups = iter(agent.texts.follow_ups)

    node = servers.node(played.with_cache[-1].node_id)
    watcher.begin(f"{node.engine_name} is restarted", 1)
    await servers.restart(node.engine_name)
    after_restart = await session.say(next(follow_ups))
    watcher.advance(after_restart)

    node = servers.node(after_restart.node_id)
    watcher.begin(f"{node.name} and {node.redis_name} are killed", 2)
    await asyncio.gather(servers.kill(node.name), servers.kill(node.redis_name))
    await _router_notices(agent, node.name)
    after_failure = await session.say(next(follow_ups))
    watcher.advance(after_failure)
    warm_again = await session.say(next(follow_ups))
    watcher.advance(warm_again)
    return DemoResult(
        without_cache=played.without_cache,
        with_cache=played.with_cache,
        after_restart=after_restart,
        after_failure=after_failure,
        warm_again=warm_again,
    )


async def play_twice(
    agent: Agent, session: Session, size: SessionSize, watcher: Watcher
) -> SessionResult:
    """
    Play the script without the cache, and then as `session`.

    Raises:
        PeerError: If no engine answers.
    """
    size = await fitted(agent, size)
    without_cache = Session(agent, "demo-without-cache", CacheHint.BYPASS)
    off = await play_session(without_cache, size, "without the cache", watcher)
    on = await play_session(session, size, "with the cache", watcher)
    return SessionResult(without_cache=tuple(off), with_cache=tuple(on))


async def fitted(agent: Agent, size: SessionSize) -> SessionSize:
    """Return the size as the model's context allows it."""
    prompt = await agent.tokenize([message("system", agent.texts.system)])
    return size.within(prompt.context_tokens, len(agent.texts.follow_ups))


async def play_session(
    session: Session, size: SessionSize, title: str, watcher: Watcher
) -> list[TurnRecord]:
    """Play one session, and tell the watcher of each turn."""
    watcher.begin(title, size.rounds)
    turns = []
    async for turn in session.play(size):
        watcher.advance(turn)
        turns.append(turn)
    return turns


@asynccontextmanager
async def open_agent(cluster: LocalCluster) -> AsyncIterator[Agent]:
    """Give an agent that talks to a cluster of ours."""

    def engine_urls() -> Sequence[str]:
        running = [node for node in cluster.nodes if cluster.is_running(node.engine_name)]
        return [node.engine_url for node in running]

    clock = SystemClock()
    async with (
        connect(cluster.layout.router_address, clock=clock) as kv,
        aiohttp.ClientSession() as http,
    ):
        yield _agent(kv, http, clock, engine_urls)


@asynccontextmanager
async def open_guest(router_address: str) -> AsyncIterator[Agent]:
    """
    Give an agent that talks to a cluster that somebody else has started.

    Raises:
        BadInputError: If the router's address can't be understood.
        PeerError: If the router does not answer, or knows no engine.
    """
    clock = SystemClock()
    async with connect(router_address, clock=clock) as kv, aiohttp.ClientSession() as http:
        urls = engine_urls_of(await kv.list_nodes())
        if not urls:
            raise PeerError(
                f"router {router_address} knows no live node with an engine, must know one; "
                "nodes tell their engine with --engine-url"
            )
        yield _agent(kv, http, clock, lambda: urls)


def engine_urls_of(nodes: Sequence[NodeStatus]) -> list[str]:
    """Return where the engines beside live nodes are."""
    endpoints = [node.endpoint for node in nodes if node.endpoint.state is NodeState.LIVE]
    return [endpoint.engine_url for endpoint in endpoints if endpoint.engine_url]


def _agent(
    router: Router,
    http: aiohttp.ClientSession,
    clock: Clock,
    engine_urls: Callable[[], Sequence[str]],
) -> Agent:
    return Agent(
        router=router,
        engines=EngineClient(http, clock),
        engine_urls=engine_urls,
        texts=load_texts(),
        clock=clock,
    )


async def _router_notices(agent: Agent, node_id: str) -> None:
    """Wait until the router takes a node for dead, so that the next turn shows the failover."""
    deadline_s = agent.clock.now() + NODE_GONE_S
    while any(
        status.endpoint.node_id == node_id and status.endpoint.state is NodeState.LIVE
        for status in await agent.router.list_nodes()
    ):
        if agent.clock.now() > deadline_s:
            raise PeerError(f"the router still takes {node_id} for live after {NODE_GONE_S:g} s")
        await asyncio.sleep(NODE_GONE_POLL_S)
