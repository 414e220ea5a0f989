"""Tests of hearthkv/demo/engine_process.py."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from hearthkv.core.errors import ModelFileError, StartupError
from hearthkv.core.kv_cache_settings import KvCacheSettings
from hearthkv.demo.engine_process import installed_model, listening, serve
from hearthkv.demo.engine_settings import EngineSettings
from hearthkv.demo.model_package import MODEL_FILE_NAME, find_model_file
from hearthkv.process import EXIT_STARTUP, run_program
from tests.fakes.node import FakeNode
from tests.fakes.router import FakeRouter, endpoint
from tests.fakes.servers import serving
from tests.unit.hearthkv.demo.engine_kit import (
    PATIENT,
    EngineKit,
    held,
    held_model,
    write_speaking_model,
)

CHAT = {"messages": [{"role": "user", "content": "x" * 300}], "max_tokens": 2}
KV_CACHE = KvCacheSettings(cache_capacity_gb=0.01)


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_speaking_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture
def taken_address() -> Iterator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def no_model() -> Path:
    raise ModelFileError("the demo's model is not installed")


class ReadyLine:
    """Waits for the READY line of an engine that runs in the test's process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    async def url(self, engine: asyncio.Task[None]) -> str:
        text = ""
        while "READY" not in text and not engine.done():
            text += self._capsys.readouterr().out
            await asyncio.sleep(0.005)
        if engine.done():
            engine.result()
        address = text.split("address=")[1].split()[0]
        assert text == f"READY address={address} metrics={address}\n"
        return f"http://{address}"


@asynccontextmanager
async def engine_of(
    model_file: Path, capsys: pytest.CaptureFixture[str], **settings: object
) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """Serve until the block is left; gives an HTTP client and the engine's URL."""
    stop = asyncio.Event()
    engine = asyncio.create_task(
        serve(
            EngineSettings(listen="127.0.0.1:0", threads=1, **settings),
            KV_CACHE,
            stop,
            lambda: model_file,
            PATIENT,
        )
    )
    url = await ReadyLine(capsys).url(engine)
    async with aiohttp.ClientSession() as http:
        yield http, url
    stop.set()
    await engine


async def ask(http: aiohttp.ClientSession, url: str) -> dict:
    async with http.post(f"{url}/v1/chat/completions", json=CHAT) as response:
        assert response.status == 200
        return await response.json()


async def test_an_engine_alone_serves_without_a_cache(model_file, capsys):
    async with engine_of(model_file, capsys) as (http, url):
        answer = await ask(http, url)
    assert answer["usage"]["prompt_tokens"] == 319
    assert answer["hearthkv"]["miss"] is None


async def test_an_engine_beside_a_node_reuses_its_blocks_after_a_restart(model_file, capsys):
    async with serving(FakeNode()) as node:
        for cached in ({"hbm": 0, "dram": 0, "ssd": 0}, {"hbm": 0, "dram": 304, "ssd": 0}):
            async with engine_of(model_file, capsys, node=node) as (http, url):
                answer = await ask(http, url)
            assert answer["hearthkv"]["cached_by_tier"] == cached


async def test_an_engine_beside_a_node_asks_no_router(model_file, capsys):
    node = FakeNode()
    async with serving(node) as at_node, serving(router := FakeRouter()) as at_router:
        settings = {"node": at_node, "routers": (at_router,)}
        async with engine_of(model_file, capsys, **settings) as (http, url):
            await ask(http, url)
    assert node.calls["Match"] == 1
    assert not router.calls


async def test_an_engine_without_a_node_asks_its_routers(model_file, capsys):
    async with (
        serving(FakeNode()) as at_node,
        serving(FakeRouter(endpoint("n-1", at_node))) as at_router,
        engine_of(model_file, capsys, routers=(at_router,)) as (http, url),
    ):
        assert (await ask(http, url))["hearthkv"]["node_id"] == "n-1"


async def test_the_model_shows_in_the_metrics(model_file, capsys):
    async with (
        engine_of(model_file, capsys) as (http, url),
        http.get(f"{url}/metrics") as response,
    ):
        assert "engine_hbm_limit_bytes 2.684354e+06" in await response.text()


def test_a_port_in_use_is_one_line_and_exit_code_2(model_file, taken_address, capsys):
    settings = EngineSettings(listen=taken_address, threads=1)

    def start() -> None:
        asyncio.run(serve(settings, KV_CACHE, asyncio.Event(), lambda: model_file))

    assert run_program("engine", start) == EXIT_STARTUP
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"engine: can't listen on {taken_address}: ")
    assert line.endswith("choose another --listen")


def test_a_model_that_is_not_there_is_one_line_and_exit_code_2(capsys):
    start = partial(asyncio.run, serve(EngineSettings(), KV_CACHE, asyncio.Event(), no_model))
    assert run_program("engine", start) == EXIT_STARTUP
    assert capsys.readouterr().err == "engine: the demo's model is not installed\n"


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0"])
async def test_the_port_that_was_taken_is_told_in_the_form_that_was_asked_for(listen: str):
    kit = EngineKit(None)
    async with listening(listen, kit.engine, kit.meters) as address:
        host, _, port = address.rpartition(":")
        assert host == listen.rpartition(":")[0]
        assert int(port) > 0


async def test_a_host_that_is_not_there_is_a_startup_error():
    kit = EngineKit(None)
    with pytest.raises(StartupError, match=r"can't listen on 203\.0\.113\.1:0: "):
        async with listening("203.0.113.1:0", kit.engine, kit.meters):
            pass


async def test_a_client_that_leaves_ends_its_request():
    kit = EngineKit(None, model=held_model())
    async with (
        listening("127.0.0.1:0", kit.engine, kit.meters) as address,
        aiohttp.ClientSession() as http,
    ):
        asked = asyncio.create_task(ask(http, f"http://{address}"))
        await held(kit.model.decoder)
        asked.cancel()
        await kit.engine.close()
        assert kit.meters.value("engine_requests_total", outcome="cancelled") == 1


@pytest.mark.model
def test_the_installed_model_is_the_one_that_is_named():
    try:
        find_model_file()
    except ModelFileError as error:
        pytest.skip(str(error))
    assert installed_model().name == MODEL_FILE_NAME
