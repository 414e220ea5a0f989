"""Tests of hearthkv/demo/prefix.py."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from grpc import StatusCode

import hearthkv
from hearthkv.client.kv import HearthKV
from hearthkv.core.clock import ManualClock
from hearthkv.core.routing import CacheHint
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import TierCounts
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode
from tests.fakes.router import FakeRouter, endpoint
from tests.fakes.servers import dead_address, serving
from tests.unit.hearthkv.demo.engine_kit import (
    BLOCK_SIZE,
    PATIENT,
    EngineKit,
    prompt_of,
    speaking_model,
)

REUSE, BYPASS = CacheHint.REUSE, CacheHint.BYPASS
UNAVAILABLE, INTERNAL = StatusCode.UNAVAILABLE, StatusCode.INTERNAL
S = SessionId("s")
PROMPT = prompt_of(100)  # 6 blocks and 4 tokens


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


class SlowNode(FakeNode):
    """Takes no block before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = asyncio.Event()

    async def Write(self, request_iterator, context):  # noqa: N802
        await self.may_write.wait()
        return await super().Write(request_iterator, context)


@dataclass
class Served:
    """A client and the node that it talks to."""

    kv: HearthKV
    node: FakeNode
    address: str


@pytest.fixture
def served(kv: HearthKV, node: FakeNode, address: str) -> Served:
    return Served(kv, node, address)


class Turns:
    """Plays turns on a source: loads, computes what is left, keeps."""

    def __init__(self, kv: HearthKV | None, node: str | None, **how) -> None:
        self.kit = EngineKit(kv, node, **how)
        self.source = self.kit.source
        self.decoder = speaking_model().decoder

    async def load(self, prompt: list[int], hint: CacheHint = REUSE):
        cache = self.decoder.new_cache(len(prompt))
        return await self.source.load(S, prompt, hint, cache), cache

    async def play(self, prompt: list[int], hint: CacheHint = REUSE):
        prefix, cache = await self.load(prompt, hint)
        assert cache.length == prefix.tokens.total
        self.decoder.forward(prompt[cache.length :], cache)
        await self.source.keep(prefix, prompt, cache)
        return prefix

    async def play_and_save(self, prompt: list[int]):
        prefix = await self.play(prompt)
        await self.source.close()
        return prefix


def assert_right(cache, prompt: list[int]) -> None:
    """What was loaded is what the decoder would have computed."""
    decoder = speaking_model().decoder
    expected = decoder.new_cache(len(prompt))
    decoder.forward(prompt, expected)
    length = cache.length
    assert np.array_equal(cache.kv[:, :, :length], expected.kv[:, :, :length])


def node_blocks(node: FakeNode) -> int:
    return len(node.blocks)


async def test_without_a_client_nothing_is_loaded_and_nothing_kept():
    turns = Turns(None, None)
    prefix = await turns.play(PROMPT)
    assert (prefix.turn, prefix.tokens, prefix.miss) == (None, TierCounts(), "")
    assert len(turns.kit.pool) == 0


async def test_bypass_neither_reads_nor_keeps(kv, address, node):
    turns = Turns(kv, address)
    await turns.play_and_save(PROMPT)
    prefix = await turns.play(PROMPT, BYPASS)
    assert (prefix.turn, prefix.tokens, prefix.miss) == (None, TierCounts(), "bypass")
    fresh = Turns(kv, address)
    await fresh.play(prompt_of(100, seed=2), BYPASS)
    await fresh.source.close()
    assert (len(fresh.kit.pool), node_blocks(node)) == (0, 6)


async def test_a_first_turn_finds_nothing_and_keeps_all_full_blocks(kv, address, node):
    turns = Turns(kv, address)
    prefix = await turns.play_and_save(PROMPT)
    assert (prefix.tokens, prefix.miss) == (TierCounts(), "not_held")
    assert (len(turns.kit.pool), node_blocks(node)) == (6, 6)
    assert turns.kit.meters.value("engine_hbm_used_bytes") == turns.kit.pool.used_bytes


async def test_the_pool_is_asked_before_the_node(kv, address, node):
    turns = Turns(kv, address)
    await turns.play_and_save(PROMPT)
    prefix, cache = await turns.load(PROMPT)
    assert (prefix.tokens, prefix.miss) == (TierCounts(hbm=96), "")
    assert node.calls["Read"] == 0
    assert_right(cache, PROMPT)


async def test_what_the_pool_lacks_comes_from_the_node(kv, address):
    await Turns(kv, address).play_and_save(PROMPT)
    prefix, cache = await Turns(kv, address).load(PROMPT)
    assert (prefix.tokens, prefix.miss) == (TierCounts(dram=96), "")
    assert_right(cache, PROMPT)


async def test_a_prefix_may_come_from_pool_and_node_together(kv, address):
    await Turns(kv, address).play_and_save(PROMPT)
    turns = Turns(kv, address, pool_blocks=2)
    await turns.play_and_save(PROMPT)
    prefix, cache = await turns.load(PROMPT)
    assert prefix.tokens == TierCounts(hbm=32, dram=64)
    assert_right(cache, PROMPT)


async def test_a_long_prefix_comes_in_batches(kv, address, node):
    prompt = prompt_of(500)  # 31 blocks
    await Turns(kv, address).play_and_save(prompt)
    prefix, cache = await Turns(kv, address, batch_blocks=8).load(prompt)
    assert prefix.tokens == TierCounts(dram=496)
    assert node.calls["Read"] == 4
    assert_right(cache, prompt)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 95, 96, 97, 112])
async def test_at_least_one_token_is_left_to_compute(kv, address, length: int):
    prompt = prompt_of(length)
    await Turns(kv, address).play_and_save(prompt)
    turns = Turns(kv, address)
    for tier in ("dram", "hbm"):
        prefix, cache = await turns.load(prompt)
        expected = (length - 1) // BLOCK_SIZE * BLOCK_SIZE
        assert (getattr(prefix.tokens, tier), cache.length) == (expected, expected)
        await turns.play_and_save(prompt)


async def test_a_turn_saves_only_what_the_node_lacks(kv, address, node):
    turns = Turns(kv, address)
    longer = [*PROMPT, *prompt_of(40, seed=2)]
    await turns.play_and_save(PROMPT)
    await turns.play_and_save(longer)
    assert [len(batch) for batch in node.write_batches] == [6, 2]


async def test_a_turn_that_begins_at_once_is_saved_behind_the_one_before(kv):
    async with serving(node := SlowNode()) as address:
        turns = Turns(kv, address)
        await turns.play(PROMPT)
        prefix = await turns.play([*PROMPT, *prompt_of(40, seed=2)])
        assert prefix.tokens == TierCounts(hbm=96)
        node.may_write.set()
        await turns.source.close()
    assert node_blocks(node) == 8
    assert sum(map(len, node.write_batches)) == 8


async def test_a_turn_takes_blocks_whose_save_is_under_way_from_memory(kv):
    async with serving(node := SlowNode()) as address:
        turns = Turns(kv, address, pool_blocks=1)
        await turns.play(PROMPT)
        prefix, cache = await turns.load(PROMPT)
        assert (prefix.tokens, node_blocks(node)) == (TierCounts(hbm=96), 0)
        assert_right(cache, PROMPT)
        node.may_write.set()
        await turns.source.close()


async def test_the_node_fills_the_gap_between_the_pool_and_what_is_being_saved(kv):
    longer = [*PROMPT, *prompt_of(40, seed=2)]
    async with serving(node := SlowNode()) as address:
        turns = Turns(kv, address, pool_blocks=1)
        node.may_write.set()
        await turns.play_and_save(PROMPT)
        node.may_write.clear()
        await turns.play(longer)
        prefix, cache = await turns.load([*longer, 1])
        assert_right(cache, [*longer, 1])
        # One block of the pool, five of the node, and two that it does not have yet.
        assert (prefix.tokens, node_blocks(node)) == (TierCounts(hbm=48, dram=80), 6)
        node.may_write.set()
        await turns.source.close()


async def test_a_node_that_lost_its_blocks_gets_them_again_from_the_pool(kv, address, node):
    turns = Turns(kv, address)
    await turns.play_and_save(PROMPT)
    node.blocks.clear()
    prefix = await turns.play_and_save(PROMPT)
    assert (prefix.tokens, node_blocks(node)) == (TierCounts(hbm=96), 6)


async def test_an_engine_without_a_pool_keeps_its_blocks_on_the_node(kv, address, node):
    turns = Turns(kv, address, pool_blocks=0)
    await turns.play_and_save(PROMPT)
    prefix = await turns.play_and_save(PROMPT)
    assert (prefix.tokens, node_blocks(node)) == (TierCounts(dram=96), 6)
    assert len(turns.kit.pool) == 0


async def test_tokens_of_the_answer_are_kept_too(kv, address, node):
    turns = Turns(kv, address)
    whole = [*PROMPT, *prompt_of(12, seed=3)]
    cache = turns.decoder.new_cache(len(whole))
    prefix = await turns.source.load(S, PROMPT, REUSE, cache)
    turns.decoder.forward(whole, cache)
    await turns.source.keep(prefix, whole, cache)
    await turns.source.close()
    assert node_blocks(node) == 7
    prefix, _ = await turns.load([*whole, 5])
    assert prefix.tokens == TierCounts(hbm=112)


async def test_what_a_stopped_turn_has_computed_is_kept(kv, address, node):
    turns = Turns(kv, address)
    prefix, cache = await turns.load(PROMPT)
    turns.decoder.forward(PROMPT[:50], cache)
    await turns.source.keep(prefix, PROMPT[:50], cache)
    await turns.source.close()
    assert (len(turns.kit.pool), node_blocks(node)) == (3, 3)


@pytest.mark.parametrize(
    ("call", "trouble", "miss"),
    [
        pytest.param("Match", Fail(UNAVAILABLE), "node_unreachable", id="match-breaks"),
        pytest.param("Match", Fail(INTERNAL, is_answer=True), "refused", id="refuses"),
        pytest.param("Read", Fail(UNAVAILABLE), "node_unreachable", id="read-breaks"),
    ],
)
async def test_trouble_with_the_node_is_a_miss_with_its_reason(
    served: Served, call: str, trouble: Fail, miss: str
):
    """I5."""
    await Turns(served.kv, served.address).play_and_save(PROMPT)
    served.node.troubles[call] = trouble
    prefix, cache = await Turns(served.kv, served.address).load(PROMPT)
    assert (prefix.tokens, cache.length, prefix.miss) == (TierCounts(), 0, miss)


@pytest.mark.parametrize(("call", "limit"), [("Match", "match_s"), ("Read", "stall_s")])
async def test_a_node_that_stalls_is_a_miss(served: Served, call: str, limit: str):
    """I5."""
    await Turns(served.kv, served.address).play_and_save(PROMPT)
    served.node.troubles[call] = Stall()
    async with hearthkv.connect(settings=replace(PATIENT, **{limit: 0.1})) as hasty:
        prefix, cache = await Turns(hasty, served.address).load(PROMPT)
    assert (prefix.tokens, cache.length, prefix.miss) == (TierCounts(), 0, "timeout")


async def test_a_node_that_is_not_there_is_a_miss(kv):
    """I5."""
    with dead_address() as address:
        turns = Turns(kv, address)
        prefix = await turns.play_and_save(PROMPT)
        assert (prefix.tokens, prefix.miss) == (TierCounts(), "node_unreachable")
        prefix = await turns.play_and_save(PROMPT)
        assert (prefix.tokens, prefix.miss) == (TierCounts(hbm=96), "")


async def test_a_damaged_block_ends_the_prefix_and_is_written_anew(kv, address, node):
    """I1."""
    await Turns(kv, address).play_and_save(PROMPT)
    held = list(node.blocks.values())[3]
    held.payload = bytes([held.payload[0] ^ 1]) + held.payload[1:]
    turns = Turns(kv, address)
    prefix, cache = await turns.load(PROMPT)
    assert (prefix.tokens, prefix.miss) == (TierCounts(dram=48), "corrupt")
    assert prefix.node_blocks == 3
    assert_right(cache, PROMPT)


async def test_a_load_that_takes_too_long_in_all_ends_between_two_batches(kv, address, node):
    prompt = prompt_of(200)
    await Turns(kv, address).play_and_save(prompt)
    clock = ManualClock()
    turns = Turns(kv, address, batch_blocks=4, clock=clock)

    def late(steps):
        clock.advance(20)
        return steps

    node.read_bends = late
    prefix, cache = await turns.load(prompt)
    assert (prefix.tokens, prefix.miss) == (TierCounts(dram=128), "timeout")
    assert prefix.node_blocks == 12
    assert_right(cache, prompt)


async def test_a_router_chooses_the_node_where_the_engine_has_none(address, node):
    router = FakeRouter(endpoint("n-1", address))
    async with serving(router) as at, hearthkv.connect(at, settings=PATIENT) as kv:
        prefix = await Turns(kv, None).play_and_save(PROMPT)
        assert prefix.turn.node_id == "n-1"
        router.matched_blocks = 6
        prefix, _ = await Turns(kv, None).load(PROMPT)
        assert prefix.tokens == TierCounts(dram=96)


async def test_a_router_that_believes_too_much_costs_a_miss_and_no_more(address, node):
    """I6."""
    router = FakeRouter(endpoint("n-1", address), matched_blocks=6)
    async with serving(router) as at, hearthkv.connect(at, settings=PATIENT) as kv:
        prefix = await Turns(kv, None).play_and_save(PROMPT)
        assert (prefix.tokens, prefix.miss) == (TierCounts(), "not_held")
        assert node_blocks(node) == 6
