"""A fake engine and a fake router with an agent before them; a tiny model, and the real one."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from hearthkv.core.clock import ManualClock
from hearthkv.core.errors import ModelFileError
from hearthkv.core.tier import TierCounts
from hearthkv.demo.agent import Agent
from hearthkv.demo.cluster_plan import LocalNode
from hearthkv.demo.engine_client import EngineClient
from hearthkv.demo.gguf_file import GgufFile
from hearthkv.demo.model_package import find_model_file
from hearthkv.demo.model_weights import ModelWeights
from hearthkv.demo.session_file import load_texts
from hearthkv.demo.turn_record import DemoResult, SessionResult, TurnRecord
from tests.tiny_model import TinyModel
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


@pytest.fixture
def guest_result(good_result: DemoResult) -> SessionResult:
    """The same session before a cluster that was left alone."""
    return SessionResult(without_cache=good_result.without_cache, with_cache=good_result.with_cache)


@pytest.fixture(scope="session")
def tiny_model() -> TinyModel:
    return TinyModel.random(seed=7)


@pytest.fixture(scope="session")
def tiny_weights(tiny_model: TinyModel, tmp_path_factory: pytest.TempPathFactory) -> ModelWeights:
    path = tiny_model.write(tmp_path_factory.mktemp("model") / "tiny.gguf")
    with GgufFile(path) as file:
        return ModelWeights.from_gguf(file)


@pytest.fixture(scope="session")
def real_model_path() -> Path:
    try:
        return find_model_file()
    except ModelFileError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def real_weights(real_model_path: Path) -> ModelWeights:
    with GgufFile(real_model_path) as file:
        return ModelWeights.from_gguf(file)
