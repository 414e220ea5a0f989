"""Tests of hearthkv/demo/engine.py."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

import hearthkv
from hearthkv.client.kv import HearthKV
from hearthkv.core.clock import ManualClock
from hearthkv.core.errors import BadRequestError, EngineBusyError
from hearthkv.core.routing import CacheHint
from hearthkv.core.tier import TierCounts
from hearthkv.demo.decoder import Decoder
from hearthkv.demo.engine import Timings, Token
from tests.fakes.misbehaviour import Stall
from tests.fakes.node import FakeNode
from tests.fakes.servers import dead_address, serving
from tests.tiny_model import CONTEXT
from tests.unit.hearthkv.demo.engine_kit import (
    BLOCK_SIZE,
    CHUNK_TOKENS,
    PATIENT,
    EngineKit,
    held,
    held_model,
    prompt_of,
    speaking_model,
)

BYPASS = CacheHint.BYPASS


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
async def address(node: FakeNode) -> AsyncIterator[str]:
    async with serving(node) as address:
        yield address


@pytest.fixture
async def kv() -> AsyncIterator[HearthKV]:
    async with hearthkv.connect(settings=PATIENT) as kv:
        yield kv


def outcome(kit: EngineKit, name: str) -> float:
    return kit.meters.value("engine_requests_total", outcome=name)


def greedy(prompt: list[int], tokens_max: int) -> list[int]:
    """What the model answers, computed without an engine."""
    decoder, answer = speaking_model().decoder, []
    cache = decoder.new_cache(len(prompt) + tokens_max)
    logits = decoder.forward(prompt, cache)
    while len(answer) < tokens_max:
        token = int(logits.argmax())
        if token == speaking_model().tokenizer.end_id:
            break
        answer.append(token)
        logits = decoder.step(token, cache)
    return answer


class FaultyDecoder(Decoder):
    """Fails at the second step of an answer."""

    def step(self, token, cache):
        if cache.length % BLOCK_SIZE == 1:
            raise MemoryError("no room for a row")
        return super().step(token, cache)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 160, 161, 700])
async def test_the_answer_is_the_same_however_much_came_from_the_cache(kv, address, length: int):
    prompt, usable = prompt_of(length), (length - 1) // BLOCK_SIZE * BLOCK_SIZE
    first, second = EngineKit(kv, address), EngineKit(kv, address)
    without = await first.ask(prompt, hint=BYPASS, tokens_max=20)
    cold = await first.ask(prompt, tokens_max=20)
    from_pool = await first.ask(prompt, tokens_max=20)
    await first.saved()
    from_node = await second.ask(prompt, tokens_max=20)
    from_pool_again = await second.ask(prompt, tokens_max=20)
    answers = (without, cold, from_pool, from_node, from_pool_again)
    assert [answer.tokens for answer in answers] == [greedy(prompt, 20)] * 5
    assert [answer.cached for answer in answers] == [
        TierCounts(),
        TierCounts(),
        TierCounts(hbm=usable),
        TierCounts(dram=usable),
        TierCounts(hbm=usable),
    ]


async def test_the_next_turn_reuses_the_answer_too(kv, address):
    kit, prompt = EngineKit(kv, address), prompt_of(160)
    answer = await kit.ask(prompt, tokens_max=20)
    longer = [*prompt, *answer.tokens, *prompt_of(30, seed=2)]
    # The answer's last token was never computed on, so its block is not full.
    computed = len(prompt) + len(answer.tokens) - 1
    again = await kit.ask(longer)
    assert again.cached.total == computed // BLOCK_SIZE * BLOCK_SIZE == 176


async def test_an_answer_ends_where_the_model_ends_it():
    kit = EngineKit(None)
    answer = await kit.ask(prompt_of(700), tokens_max=60)
    assert (len(answer.tokens), answer.finished.completion_tokens) == (4, 4)
    assert answer.finished.finish_reason == "stop"
    assert outcome(kit, "stop") == 1


async def test_an_answer_ends_at_the_length_that_was_asked_for():
    kit = EngineKit(None)
    answer = await kit.ask(prompt_of(160), tokens_max=3)
    assert (len(answer.tokens), answer.finished.finish_reason) == (3, "length")
    assert outcome(kit, "length") == 1


async def test_an_answer_ends_at_the_end_of_the_context():
    answer = await EngineKit(None).ask(prompt_of(CONTEXT - 2), tokens_max=100)
    assert (len(answer.tokens), answer.finished.finish_reason) == (2, "length")


@pytest.mark.parametrize("length", [0, CONTEXT, CONTEXT + 5])
async def test_a_prompt_that_does_not_fit_is_refused_with_figures(length: int):
    kit = EngineKit(None)
    with pytest.raises(BadRequestError, match=f"prompt is {length} tokens, must be 1 to 1023"):
        await kit.ask(prompt_of(length))


async def test_the_time_to_the_first_token_is_the_sum_of_its_parts():
    assert Timings(wait_s=1, match_s=2, load_s=3, compute_s=4).ttft_s == 10
    clock = ManualClock()
    kit = EngineKit(None, clock=clock)
    async with kit.engine._running:
        waiting = asyncio.create_task(kit.ask(prompt_of(20)))
        await asyncio.sleep(0)
        clock.advance(1.5)
    answer = await waiting
    assert answer.finished.timings == Timings(wait_s=1.5, match_s=0, load_s=0, compute_s=0)
    assert kit.meters.value("engine_ttft_seconds_sum") == 1.5


async def test_more_requests_than_may_wait_are_refused():
    kit = EngineKit(None, model=held_model(), requests_max=2)
    asked = [asyncio.create_task(kit.ask(prompt_of(300))) for _ in range(2)]
    await held(kit.model.decoder)
    with pytest.raises(EngineBusyError, match="2 requests run or wait, at most 2 may"):
        await kit.ask(prompt_of(5))
    kit.model.decoder.release.set()
    await asyncio.gather(*asked)
    assert (await kit.ask(prompt_of(5))).finished
    assert (outcome(kit, "refused"), outcome(kit, "length")) == (1, 3)


async def test_a_cancelled_prefill_stops_at_its_next_chunk_and_keeps_what_it_has(kv, address):
    kit = EngineKit(kv, address, model=held_model())
    asked = asyncio.create_task(kit.ask(prompt_of(700)))
    await held(kit.model.decoder)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert outcome(kit, "cancelled") == 1
    assert len(kit.pool) == CHUNK_TOKENS // BLOCK_SIZE
    kit.model.decoder.release.set()
    again = await kit.ask(prompt_of(700))
    assert again.cached == TierCounts(hbm=CHUNK_TOKENS)
    assert again.tokens == greedy(prompt_of(700), 4)


async def test_a_request_that_is_cancelled_twice_still_ends_its_computation_first(kv, address):
    kit = EngineKit(kv, address, model=held_model(hold_at_step=1))
    asked = asyncio.create_task(kit.ask(prompt_of(31)))
    await held(kit.model.decoder)
    for _ in range(2):
        asked.cancel()
        await asyncio.sleep(0)
    assert not asked.done()
    kit.model.decoder.release.set()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await kit.engine.close()
    assert len(kit.pool) == 2


async def test_an_answer_that_nobody_reads_to_its_end_is_cancelled(kv, address):
    kit = EngineKit(kv, address)
    steps = kit.steps(prompt_of(160), tokens_max=100)
    assert isinstance(await anext(steps), Token)
    await steps.aclose()
    assert outcome(kit, "cancelled") == 1
    assert len(kit.pool) == 10


async def test_an_answer_that_is_left_behind_its_end_is_no_cancelled_one():
    kit = EngineKit(None)
    steps = kit.steps(prompt_of(160), tokens_max=1)
    await anext(steps)
    assert (await anext(steps)).finish_reason == "length"
    await steps.aclose()
    assert (outcome(kit, "length"), outcome(kit, "cancelled")) == (1, 0)


async def test_a_request_that_is_cancelled_while_it_waits_lets_the_others_go_on():
    kit = EngineKit(None, model=held_model())
    running = asyncio.create_task(kit.ask(prompt_of(300)))
    await held(kit.model.decoder)
    waiting = asyncio.create_task(kit.ask(prompt_of(20)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    kit.model.decoder.release.set()
    assert (await running).finished
    assert (outcome(kit, "cancelled"), outcome(kit, "length")) == (1, 1)


async def test_a_request_that_fails_is_counted_and_the_engine_goes_on():
    model = speaking_model()
    kit = EngineKit(None, model=replace(model, decoder=FaultyDecoder(model.decoder._weights, 1)))
    with pytest.raises(MemoryError):
        await kit.ask(prompt_of(16))
    assert outcome(kit, "failed") == 1
    assert (await kit.ask(prompt_of(20))).finished


async def test_closing_waits_for_the_request_that_runs():
    kit = EngineKit(None, model=held_model())
    running = asyncio.create_task(kit.ask(prompt_of(300)))
    await held(kit.model.decoder)
    closing = asyncio.create_task(kit.engine.close())
    await asyncio.sleep(0)
    assert not closing.done()
    running.cancel()
    await closing
    assert outcome(kit, "cancelled") == 1


async def test_a_dead_node_costs_a_miss_and_never_the_answer(kv):
    """I5."""
    with dead_address() as address:
        answer = await EngineKit(kv, address).ask(prompt_of(160))
    assert (answer.tokens, answer.miss) == (greedy(prompt_of(160), 4), "node_unreachable")


async def test_a_node_that_stalls_in_the_middle_costs_a_miss_and_never_the_answer(
    kv, address, node
):
    """I5."""
    first = EngineKit(kv, address)
    await first.ask(prompt_of(160))
    await first.saved()
    node.read_bends = lambda steps: [*steps[: len(steps) // 2], Stall()]
    async with hearthkv.connect(settings=replace(PATIENT, stall_s=0.5)) as hasty:
        answer = await EngineKit(hasty, address).ask(prompt_of(160))
    assert (answer.tokens, answer.miss) == (greedy(prompt_of(160), 4), "timeout")
    assert answer.cached == TierCounts(dram=64)


async def test_damaged_bytes_cost_a_miss_and_never_the_answer(kv, address, node):
    """I1 and I5."""
    first = EngineKit(kv, address)
    await first.ask(prompt_of(160))
    await first.saved()
    for held_block in node.blocks.values():
        held_block.payload = bytes(len(held_block.payload))
    answer = await EngineKit(kv, address).ask(prompt_of(160))
    assert (answer.tokens, answer.miss) == (greedy(prompt_of(160), 4), "corrupt")
    assert answer.cached == TierCounts()


async def test_the_metrics_of_a_scripted_workload_are_exact(kv, address):
    """100 tokens cold, the same from the pool, 60 more behind them, the same without cache."""
    kit, longer = EngineKit(kv, address), [*prompt_of(100), *prompt_of(60, seed=2)]
    assert kit.meters.value("engine_cache_hit_ratio", tier="total") == 0
    await kit.ask(prompt_of(100), tokens_max=1)
    await kit.ask(prompt_of(100), tokens_max=1)
    await kit.ask(longer, tokens_max=1)
    await kit.ask(longer, tokens_max=1, hint=BYPASS)
    await kit.saved()
    restarted = EngineKit(kv, address)
    await restarted.ask(longer, tokens_max=1)
    value = kit.meters.value
    assert value("engine_prompt_tokens_total") == 100 + 100 + 160 + 160
    assert value("engine_cached_tokens_total", tier="hbm") == 96 + 96
    assert value("engine_cached_tokens_total", tier="dram") == 0
    assert value("engine_cache_hit_ratio", tier="total") == 192 / 520
    assert value("engine_cache_hit_ratio", tier="hbm") == 192 / 520
    assert value("engine_cache_hit_ratio", tier="dram") == 0
    assert value("engine_ttft_seconds_count") == 4
    assert value("engine_requests_total", outcome="length") == 4
    assert value("engine_saved_blocks_total") == 10
    value = restarted.meters.value
    assert value("engine_cached_tokens_total", tier="dram") == 144
    assert value("engine_cache_hit_ratio", tier="dram") == 144 / 160
    assert value("engine_cache_hit_ratio", tier="total") == 144 / 160
