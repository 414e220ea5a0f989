"""Tests of hearthkv/client/arriving_load.py: blocks that come while they are loaded."""

from collections.abc import Callable
from dataclasses import replace

import grpc
import pytest

from hearthkv.client.kv import HearthKV
from hearthkv.client.outcome import Loaded, MissReason
from hearthkv.client.turn import Turn
from hearthkv.core.clock import ManualClock
from hearthkv.core.tier import TierCounts
from hearthkv.v1 import cache_node_pb2 as pb2
from hearthkv.v1 import router_pb2
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode
from tests.fakes.router import FakeRouter, endpoint
from tests.fakes.servers import serving
from tests.unit.hearthkv.client.client_kit import (
    BLOCK_BYTES,
    BLOCKS,
    KEYS,
    PATIENT,
    PAYLOADS,
    SPEC,
    TOKENS,
    client,
    holding,
)

SOURCE = "10.9.8.7:7500"


def news(held: int, pulled: int, end: int = pb2.PULL_END_UNSPECIFIED) -> pb2.PullResponse:
    return pb2.PullResponse(held_blocks=held, pulled_blocks=pulled, end=end)


def arrive(node: FakeNode, count: int) -> Callable[[], None]:
    """Have a node hold the prompt's first blocks once its answers come to this."""

    def come() -> None:
        for index in range(count):
            node.hold(SPEC.namespace_id, KEYS[index], PAYLOADS[index])

    return come


def arriving(count: int = BLOCKS, *, held: int = 0) -> FakeNode:
    """A node that says, before anything else, that blocks are on their way."""
    node = holding(held)
    node.arriving_blocks = count
    return node


async def load(kv: HearthKV, address: str, **named) -> tuple[Turn, Loaded, bytearray]:
    turn = await kv.begin_turn("s", SPEC, TOKENS, node=address)
    buffer = bytearray(BLOCKS * BLOCK_BYTES)
    return turn, await turn.load_into(buffer, **named), buffer


async def test_what_is_held_is_loaded_and_then_what_arrives():
    node = arriving(held=2)
    node.pull_answers = [
        news(2, 0),
        arrive(node, 3),
        news(3, 1),
        arrive(node, BLOCKS),
        news(BLOCKS, 3, pb2.PULL_END_COMPLETE),
    ]
    progress: list[int] = []
    async with serving(node) as address, client() as kv:
        turn, loaded, buffer = await load(kv, address, on_progress=progress.append)
        assert (turn.matched.total, turn.arriving_blocks) == (2, BLOCKS)
    assert loaded == Loaded(5, 20, TierCounts(dram=5), pulled_blocks=3)
    assert bytes(buffer) == b"".join(PAYLOADS)
    assert progress == [1, 2, 3, 4, 5]
    (asked,) = node.pulls
    assert (asked.source_address, asked.session_id) == ("", "s")
    assert asked.keys.keys == KEYS.packed


async def test_a_route_names_the_source_so_that_a_lost_order_does_no_harm():
    node = holding(0)
    node.pull_answers = [arrive(node, 4), news(4, 4, pb2.PULL_END_COMPLETE)]
    async with serving(node) as address:
        router = FakeRouter(endpoint("n", address))
        source = router_pb2.PullSource(node=endpoint("m", SOURCE), blocks=4)
        router.pull_from = [source]
        async with serving(router) as router_address, client(router_address) as kv:
            turn = await kv.begin_turn("s", SPEC, TOKENS)
            loaded = await turn.load_into(bytearray(BLOCKS * BLOCK_BYTES))
    assert node.pulls[0].source_address == SOURCE
    assert node.pulls[0].namespace.block_bytes == BLOCK_BYTES
    assert loaded == Loaded(4, 16, TierCounts(dram=4), MissReason.NOT_HELD, pulled_blocks=4)


async def test_only_what_is_asked_for_is_waited_for():
    node = arriving(held=2)
    node.pull_answers = [arrive(node, 3), news(3, 1), Stall()]
    async with serving(node) as address, client() as kv:
        _, loaded, _ = await load(kv, address, first_block=1, blocks=2)
    assert loaded == Loaded(2, 8, TierCounts(dram=2), pulled_blocks=1)


async def test_nothing_is_pulled_for_a_load_behind_what_arrives():
    node = arriving(3)
    async with serving(node) as address, client() as kv:
        _, loaded, _ = await load(kv, address, first_block=3)
    assert loaded.miss is MissReason.NOT_HELD
    assert node.calls["Pull"] == 0


async def test_nothing_is_pulled_for_a_load_of_what_is_held():
    node = arriving(held=2)
    async with serving(node) as address, client() as kv:
        _, loaded, _ = await load(kv, address, blocks=2)
    assert loaded == Loaded(2, 8, TierCounts(dram=2))
    assert node.calls["Pull"] == 0


@pytest.mark.parametrize(
    ("answer", "miss"),
    [
        (news(2, 0, pb2.PULL_END_UNAVAILABLE), MissReason.NOT_HELD),
        (Fail(grpc.StatusCode.INTERNAL, is_answer=True), MissReason.REFUSED),
        (Fail(grpc.StatusCode.UNAVAILABLE), MissReason.NODE_UNREACHABLE),
    ],
    ids=["ended", "refused", "gone"],
)
async def test_a_pull_that_ends_leaves_the_rest_to_the_prefill(answer, miss: MissReason):
    node = arriving(held=2)
    node.pull_answers = [answer]
    async with serving(node) as address, client() as kv:
        _, loaded, _ = await load(kv, address)
    assert loaded == Loaded(2, 8, TierCounts(dram=2), miss)


@pytest.mark.parametrize(
    ("last", "miss"),
    [(None, MissReason.BAD_ANSWER), (Stall(), MissReason.RECOMPUTE)],
    ids=["silent-end", "stall"],
)
async def test_what_arrived_before_trouble_is_loaded(last, miss: MissReason):
    node = arriving(held=2)
    node.pull_answers = [arrive(node, 3), news(3, 1)]
    if last is not None:
        node.pull_answers.append(last)
    async with serving(node) as address, client() as kv:
        kv._loader._rates.note_prefill(SPEC.namespace_id, 4000, 40.0)  # 25 blocks a second
        _, loaded, _ = await load(kv, address)
        assert address not in kv._calls.skipped()
    assert loaded == Loaded(3, 12, TierCounts(dram=3), miss, pulled_blocks=1)


async def test_arrivals_that_are_slower_than_computing_are_not_waited_for():
    node = arriving(held=2)
    node.pull_answers = [Stall()]
    async with serving(node) as address, client() as kv:
        rates = kv._loader._rates
        rates.note_prefill(SPEC.namespace_id, 4000, 1.0)  # 1,000 blocks a second
        rates.note_arrivals(address, 500 * BLOCK_BYTES, 1.0, 0.0)
        _, loaded, _ = await load(kv, address)
    assert loaded == Loaded(2, 8, TierCounts(dram=2), MissReason.RECOMPUTE)


async def test_without_a_gate_arrivals_are_waited_for_until_the_deadline():
    node = arriving(held=2)
    node.pull_answers = [Stall()]
    settings = replace(PATIENT, load_gate=False)
    async with serving(node) as address, client(settings=settings) as kv:
        kv._loader._rates.note_prefill(SPEC.namespace_id, 4000, 0.1)
        _, loaded, _ = await load(kv, address, deadline_s=0.3)
    assert (loaded.blocks, loaded.miss) == (2, MissReason.TIMEOUT)


async def test_how_fast_blocks_arrive_is_learned():
    clock = ManualClock()
    node = arriving()
    node.pull_answers = [
        arrive(node, 1),
        news(1, 1),
        lambda: clock.advance(2.0),
        arrive(node, BLOCKS),
        news(BLOCKS, BLOCKS, pb2.PULL_END_COMPLETE),
    ]
    async with serving(node) as address, client(clock=clock) as kv:
        _, loaded, _ = await load(kv, address)
        rate = kv._loader._rates.arrival_rate(address, clock.now(), 30.0)
    assert loaded.blocks == BLOCKS
    # The first news may have been read before the clock went on, or behind that.
    assert rate is None or rate == pytest.approx(4 * BLOCK_BYTES / 2.0)


async def test_blocks_that_go_before_they_are_loaded_end_the_load():
    node = arriving(held=2)
    node.pull_answers = [news(BLOCKS, 3)]
    async with serving(node) as address, client() as kv:
        _, loaded, _ = await load(kv, address)
    assert loaded.blocks == 2
    assert loaded.miss in {MissReason.NOT_HELD, MissReason.BAD_ANSWER}


async def test_a_client_that_is_closed_loads_nothing():
    node = arriving(held=2)
    async with serving(node) as address:
        async with client() as kv:
            turn = await kv.begin_turn("s", SPEC, TOKENS, node=address)
        loaded = await turn.load_into(bytearray(BLOCKS * BLOCK_BYTES))
    assert loaded == Loaded(miss=MissReason.NODE_UNREACHABLE)
