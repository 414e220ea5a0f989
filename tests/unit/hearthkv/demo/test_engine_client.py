"""An engine's answers are measured, and its troubles named."""

import json

import pytest

from hearthkv.core.errors import PeerError
from hearthkv.core.routing import CacheHint
from hearthkv.core.tier import TierCounts
from hearthkv.demo.engine_client import ChatAnswer, pick
from hearthkv.demo.script import message
from tests.unit.hearthkv.demo.conftest import Stage
from tests.unit.hearthkv.demo.fake_engine import (
    CONTEXT_TOKENS,
    NAMESPACE,
    SECONDS_A_TOKEN,
    event,
    last_event,
)

MESSAGES = [message("user", "What is a ledger?")]
DONE = "data: [DONE]"


async def chat(stage: Stage) -> ChatAnswer:
    return await stage.agent.engines.chat(
        stage.url, MESSAGES, [], session_id="s", hint=CacheHint.REUSE, tokens_max=24
    )


async def test_a_prompt_comes_back_as_tokens_with_its_namespace(stage: Stage):
    prompt = await stage.agent.engines.tokenize(stage.url, MESSAGES, [])
    assert len(prompt.tokens) == 12
    assert prompt.context_tokens == CONTEXT_TOKENS
    assert prompt.namespace == NAMESPACE


async def test_an_answer_has_its_text_its_time_and_its_figures(stage: Stage):
    answer = await chat(stage)
    assert answer.text == "Answer 1."
    assert answer.ttft_s == pytest.approx(12 * SECONDS_A_TOKEN)
    assert answer.prompt_tokens == 12
    assert (answer.cached, answer.miss) == (TierCounts(), "not_held")
    assert answer.timings == {"compute_s": 1.0}


async def test_a_request_names_its_session_and_asks_for_the_figures(stage: Stage):
    await chat(stage)
    (body,) = stage.engine.requests
    assert body["metadata"] == {"session_id": "s", "cache_hint": "reuse"}
    assert body["stream_options"] == {"include_usage": True}
    assert (body["temperature"], body["max_tokens"], body["stream"]) == (0, 24, True)


async def test_an_answer_without_text_ends_the_wait_with_its_end(stage: Stage):
    stage.engine.lines = [event(content=""), event("stop"), last_event(12, 0), ": note", DONE]
    answer = await chat(stage)
    assert (answer.text, answer.ttft_s) == ("", 0.0)


@pytest.mark.parametrize(
    ("lines", "trouble"),
    [
        ([event(content="a")], r"breaks off before \[DONE\]"),
        ([DONE], "breaks off before its first token"),
        (["data: {", DONE], "Expecting"),
        ([event("stop", content="a"), DONE], "hearthkv is None, must be a dict"),
        (['data: {"error": 1}', DONE], "choices is None, must be a list"),
        (['data: {"choices": [7]}', DONE], "breaks off before its first token"),
    ],
    ids=["cut", "empty", "no-json", "no-figures", "error", "odd-choice"],
)
async def test_an_odd_stream_is_trouble_with_a_peer(stage: Stage, lines: list[str], trouble: str):
    stage.engine.lines = lines
    with pytest.raises(PeerError, match=trouble):
        await chat(stage)


async def test_an_engine_that_refuses_is_quoted(stage: Stage):
    stage.engine.status = 400
    with pytest.raises(PeerError, match=r"/tokenize: status 400: .*max_model_len"):
        await stage.agent.engines.tokenize(stage.url, MESSAGES, [])


async def test_an_engine_that_is_not_there_is_named(stage: Stage):
    with pytest.raises(PeerError, match=r"http://127\.0\.0\.1:1/tokenize: Cannot connect"):
        await stage.agent.engines.tokenize("http://127.0.0.1:1", MESSAGES, [])


async def test_an_engine_without_hearthkv_is_told(stage: Stage):
    with pytest.raises(PeerError, match="hearthkv is None"):
        pick(json.loads("{}"), "hearthkv", dict)
    with pytest.raises(PeerError, match="hearthkv is None"):
        pick([], "hearthkv", dict)
