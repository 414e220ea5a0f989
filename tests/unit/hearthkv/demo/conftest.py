"""A fake engine, a fake router and an agent before them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from hearthkv.core.clock import ManualClock
from hearthkv.core.tier import TierCounts
from hearthkv.demo.agent import Agent
from hearthkv.demo.cluster_plan import LocalNode
from hearthkv.demo.engine_client import EngineClient
from hearthkv.demo.session_file import load_texts
from hearthkv.demo.turn_record import DemoResult, TurnRecord
from tests.unit.hearthkv.demo.fake_engine import FakeEngine, FakeRouter


@dataclass
class Stage:
    """All that a session needs."""

    agent: Agent
    engine: FakeEngine
    router: FakeRouter
    nodes: list[LocalNode]
    url: str
    engine_urls: list[str]
    clock: ManualClock


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    clock = ManualClock()
    engine = FakeEngine(clock)
    async with TestServer(engine.app()) as server, aiohttp.ClientSession() as http:
        url = str(server.make_url("")).rstrip("/")
        nodes = [
            LocalNode(f"node-{n}", f"127.0.0.1:{n}", "", f"redis-{n}", f"engine-{n}", url)
            for n in (1, 2)
        ]
        router, urls = FakeRouter(nodes, clock), [url]
        agent = Agent(
            router=router,
            engines=EngineClient(http, clock),
            engine_urls=lambda: urls,
            texts=load_texts(),
            clock=clock,
        )
        yield Stage(agent, engine, router, nodes, url, urls, clock)


def turn(number: int, cached: TierCounts, *, ttft_s: float = 1.0, **changes: str) -> TurnRecord:
    """A turn of 1,000 tokens and more."""
    fields = {"text": f"answer {number}", "node_id": "node-1", "reason": "session", **changes}
    return TurnRecord(
        round=number,
        prompt_tokens=1000 + 100 * number,
        ttft_s=ttft_s,
        route_s=0.001,
        cached=cached,
        engine_url="http://127.0.0.1:1",
        **fields,
    )


@pytest.fixture
def good_result() -> DemoResult:
    """A demo of three rounds in which all is as it should be."""
    nothing = TierCounts()
    return DemoResult(
        without_cache=tuple(turn(n, nothing, ttft_s=4.0 * n) for n in (1, 2, 3)),
        with_cache=(
            turn(1, nothing, ttft_s=4.0),
            turn(2, TierCounts(hbm=1104), ttft_s=0.5),
            turn(3, TierCounts(hbm=600, dram=400, ssd=200), ttft_s=0.5),
        ),
        after_restart=turn(4, TierCounts(dram=900, ssd=400), ttft_s=0.6),
        after_failure=turn(5, nothing, ttft_s=13.0, node_id="node-2", reason="failover"),
        warm_again=turn(6, TierCounts(hbm=1504), node_id="node-2"),
    )
