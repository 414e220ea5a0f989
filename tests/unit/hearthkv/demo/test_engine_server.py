"""Tests of hearthkv/demo/engine_server.py."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

import hearthkv
from hearthkv.client.kv import HearthKV
from hearthkv.demo.engine_server import BODY_BYTES_MAX, _send, make_app
from hearthkv.demo.openai_api import ChatMessage
from tests.fakes.node import FakeNode
from tests.fakes.router import FakeRouter, endpoint
from tests.fakes.servers import serving
from tests.unit.hearthkv.demo.engine_kit import (
    CHUNK_TOKENS,
    PATIENT,
    EngineKit,
    held,
    held_model,
    speaking_model,
)

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "Hello there, how are you"}]
HELLO_TOKENS = speaking_model().tokenizer.encode_prompt(
    [ChatMessage("user", "Hello there, how are you")]
)
LONG = [{"role": "user", "content": "x" * 600}]


@pytest.fixture
async def node() -> AsyncIterator[str]:
    async with serving(FakeNode()) as address:
        yield address


@pytest.fixture
async def kv() -> AsyncIterator[HearthKV]:
    async with hearthkv.connect(settings=PATIENT) as kv:
        yield kv


@asynccontextmanager
async def client_of(kit: EngineKit) -> AsyncIterator[TestClient]:
    async with TestClient(TestServer(make_app(kit.engine, kit.meters))) as client:
        yield client


@pytest.fixture
async def kit(kv: HearthKV, node: str) -> EngineKit:
    return EngineKit(kv, node)


@pytest.fixture
async def http(kit: EngineKit) -> AsyncIterator[TestClient]:
    async with client_of(kit) as client:
        yield client


async def chat(http: TestClient, **fields: object) -> dict:
    body = {"messages": HELLO, "max_tokens": 30, **fields}
    response = await http.post(CHAT, json=body)
    assert response.status == 200, await response.text()
    return await response.json()


async def stream(http: TestClient, **fields: object) -> list[dict | str]:
    """The events of a streamed answer; the end of the stream as text."""
    body = {"messages": HELLO, "max_tokens": 30, "stream": True, **fields}
    async with http.post(CHAT, json=body) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        lines = (await response.text()).split("\n\n")
    assert lines.pop() == ""
    texts = [line.removeprefix("data: ") for line in lines]
    return [text if text == "[DONE]" else json.loads(text) for text in texts]


async def test_a_whole_answer_carries_its_text_and_its_figures(http, kit):
    expected = await EngineKit(None).ask(HELLO_TOKENS, tokens_max=30)
    answer = await chat(http)
    (choice,) = answer["choices"]
    assert choice["message"]["content"] == kit.model.tokenizer.decode(expected.tokens)
    assert choice["finish_reason"] == "length"
    assert answer["model"] == kit.model.name
    assert answer["usage"] == {
        "prompt_tokens": 42,
        "completion_tokens": 30,
        "total_tokens": 72,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert answer["hearthkv"]["miss"] == "not_held"


async def test_cached_tokens_are_told_by_tier(http):
    await chat(http)
    answer = await chat(http)
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 32
    assert answer["hearthkv"]["cached_by_tier"] == {"hbm": 32, "dram": 0, "ssd": 0}
    assert answer["hearthkv"]["miss"] is None
    assert set(answer["hearthkv"]["timings"]) == {"wait_s", "match_s", "load_s", "compute_s"}


async def test_a_request_that_bypasses_the_cache_takes_nothing_from_it(http):
    await chat(http)
    answer = await chat(http, metadata={"session_id": "s", "cache_hint": "bypass"})
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert (answer["hearthkv"]["miss"], answer["hearthkv"]["node_id"]) == ("bypass", None)


async def test_the_node_that_a_router_chose_is_named(node):
    async with (
        serving(FakeRouter(endpoint("n-1", node))) as router,
        hearthkv.connect(router, settings=PATIENT) as kv,
        client_of(EngineKit(kv)) as http,
    ):
        answer = await chat(http, metadata={"session_id": "s"})
    assert (answer["hearthkv"]["node_id"], answer["hearthkv"]["reason"]) == ("n-1", "session")


async def test_a_stream_says_the_same_as_the_whole_answer(http):
    whole = await chat(http)
    role, *contents, end, usage, done = await stream(http)
    (choice,) = role["choices"]
    assert choice["delta"] == {"role": "assistant", "content": ""}
    deltas = [event["choices"][0]["delta"] for event in [*contents, end]]
    text = "".join(delta.get("content", "") for delta in deltas)
    assert text == whole["choices"][0]["message"]["content"]
    assert all(event["choices"][0]["finish_reason"] is None for event in [role, *contents])
    assert end["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == len(contents) == 30
    assert usage["usage"]["prompt_tokens_details"]["cached_tokens"] == 32
    assert {event["id"] for event in [role, *contents, end, usage]} == {role["id"]}
    assert done == "[DONE]"


async def test_a_stream_leaves_its_figures_out_where_they_are_not_wanted(http):
    events = await stream(http, stream_options={"include_usage": False})
    assert events[-1] == "[DONE]"
    assert events[-2]["choices"][0]["finish_reason"] == "length"


async def test_an_answer_without_a_token_is_streamed_too(kit, http):
    first = (await EngineKit(None).ask(HELLO_TOKENS)).tokens[0]
    tokenizer = kit.model.tokenizer
    end_id, tokenizer.end_id = tokenizer.end_id, first
    try:
        _, end, usage, _ = await stream(http)
    finally:
        tokenizer.end_id = end_id
    assert end["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "stop"}
    assert usage["usage"]["completion_tokens"] == 0


async def test_the_model_may_be_named(http, kit):
    assert (await chat(http, model=kit.model.name))["model"] == kit.model.name


async def test_another_model_is_not_found(http, kit):
    response = await http.post(CHAT, json={"messages": HELLO, "model": "gpt-x"})
    error = (await response.json())["error"]
    assert response.status == 404
    assert error["message"] == f"model 'gpt-x' is not served here, must be {kit.model.name!r}"


@pytest.mark.parametrize("path", [CHAT, "/tokenize"])
@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b"", "body is not JSON", id="empty"),
        pytest.param(b"{", "body is not JSON", id="cut"),
        pytest.param(b"\xff", "body is not JSON", id="no-text"),
        pytest.param(b"[" * 100_000, "nested too deep", id="nested"),
        pytest.param(b"[]", "body is a list, must be an object", id="list"),
        pytest.param(b"{}", "messages must be a list of 1 to 4096 messages", id="no-messages"),
        pytest.param(
            b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
            "messages[0].content has the lone surrogate U+D800",
            id="surrogate",
        ),
    ],
)
async def test_a_body_that_cannot_be_used_is_a_bad_request(http, path: str, body: bytes, text: str):
    response = await http.post(path, data=body)
    error = (await response.json())["error"]
    assert (response.status, error["type"]) == (400, "invalid_request_error")
    assert text in error["message"]


async def test_an_unknown_charset_is_a_bad_request(http):
    headers = {"Content-Type": "application/json; charset=none-such"}
    response = await http.post(CHAT, data=b"{}", headers=headers)
    assert response.status == 400


async def test_a_bad_field_is_named_before_a_stream_begins(http):
    response = await http.post(CHAT, json={"messages": HELLO, "stream": True, "max_tokens": 0})
    assert response.status == 400
    assert (await response.json())["error"]["message"].startswith("max_tokens is 0")


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_prompt_that_is_too_long_is_a_bad_request_with_figures(http, is_stream: bool):
    messages = [{"role": "user", "content": "x" * 2000}]
    response = await http.post(CHAT, json={"messages": messages, "stream": is_stream})
    assert response.status == 400
    text = (await response.json())["error"]["message"]
    assert text == "prompt is 2019 tokens, must be 1 to 1023 for this model"


async def test_too_many_requests_are_asked_to_come_again():
    kit = EngineKit(None, model=held_model(), requests_max=1)
    async with client_of(kit) as http:
        running = asyncio.create_task(chat(http, messages=LONG))
        await held(kit.model.decoder)
        response = await http.post(CHAT, json={"messages": HELLO, "stream": True})
        assert (response.status, response.headers["Retry-After"]) == (503, "1")
        error = (await response.json())["error"]
        assert error["message"] == "1 requests run or wait, at most 1 may"
        kit.model.decoder.release.set()
        await running


async def test_a_client_that_leaves_during_the_prefill_ends_its_request(kv, node):
    kit = EngineKit(kv, node, model=held_model())
    async with client_of(kit) as http:
        asked = asyncio.create_task(chat(http, messages=LONG))
        await held(kit.model.decoder)
        asked.cancel()
        await kit.engine.close()
        assert kit.meters.value("engine_requests_total", outcome="cancelled") == 1
        kit.model.decoder.release.set()
        answer = await chat(http, messages=LONG)
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == CHUNK_TOKENS


async def test_a_client_that_leaves_during_the_answer_ends_its_request(kv, node):
    kit = EngineKit(kv, node, model=held_model(hold_at_step=2))
    async with client_of(kit) as http:
        body = {"messages": HELLO, "stream": True, "max_tokens": 900}
        response = await http.post(CHAT, json=body)
        await response.content.readline()
        await held(kit.model.decoder)
        response.close()
        kit.model.decoder.release.set()
        await kit.engine.close()
        assert kit.meters.value("engine_requests_total", outcome="cancelled") == 1


async def test_tokenize_tells_the_tokens_of_the_prompt_and_their_namespace(http, kit):
    response = await http.post("/tokenize", json={"messages": HELLO})
    spec = kit.model.namespace.spec
    assert await response.json() == {
        "count": 42,
        "max_model_len": 1024,
        "tokens": HELLO_TOKENS,
        "hearthkv": {
            "namespace_id": spec.namespace_id.hex(),
            "block_size": 16,
            "block_bytes": 4096,
        },
    }
    assert (await chat(http))["usage"]["prompt_tokens"] == 42


async def test_tokenize_counts_tools_as_the_chat_does(http):
    asked = {"messages": HELLO, "tools": [{"type": "function", "function": {"name": "run"}}]}
    response = await http.post("/tokenize", json=asked)
    count = (await response.json())["count"]
    assert (await chat(http, **asked))["usage"]["prompt_tokens"] == count > 42


async def test_the_model_is_listed(http, kit):
    body = await (await http.get("/v1/models")).json()
    (model,) = body["data"]
    assert (model["id"], model["max_model_len"]) == (kit.model.name, 1024)


async def test_the_engine_says_that_it_is_well(http):
    assert await (await http.get("/health")).json() == {"status": "ok"}


async def test_metrics_are_there_before_the_first_request_and_right_after_it(http):
    before = await (await http.get("/metrics")).text()
    assert 'engine_cache_hit_ratio{tier="total"} 0.0' in before
    await chat(http)
    await chat(http)
    response = await http.get("/metrics")
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = (await response.text()).splitlines()
    assert f'engine_cache_hit_ratio{{tier="total"}} {32 / 84}' in lines
    assert f'engine_cache_hit_ratio{{tier="hbm"}} {32 / 84}' in lines
    assert "engine_ttft_seconds_count 2.0" in lines
    assert "engine_prompt_tokens_total 84.0" in lines
    assert 'engine_requests_total{outcome="length"} 2.0' in lines


async def test_what_is_not_there_is_told_as_json(http):
    response = await http.get("/nothing")
    assert response.status == 404
    assert (await response.json())["error"]["message"] == "GET /nothing: Not Found"


async def test_another_method_is_told_which_ones_are_allowed(http):
    response = await http.get(CHAT)
    assert (response.status, response.headers["Allow"]) == (405, "POST")


async def test_a_body_that_is_too_large_is_refused(http):
    response = await http.post("/tokenize", data=io.BytesIO(b" " * (BODY_BYTES_MAX + 1)))
    assert response.status == 413
    assert "error" in await response.json()


class StuckResponse(web.StreamResponse):
    """To a client that reads no more."""

    async def write(self, data) -> None:
        await asyncio.Event().wait()


async def test_a_client_that_stops_reading_is_taken_for_one_that_left():
    with pytest.raises(ConnectionResetError, match=r"client took nothing for 0\.01 s"):
        await _send(StuckResponse(), {}, limit_s=0.01)
