"""Tests of hearthkv/demo/turn_saves.py."""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import grpc
import pytest

import hearthkv
from hearthkv.client.kv import HearthKV
from hearthkv.client.turn import Turn
from hearthkv.core.clock import SystemClock
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import SessionId
from hearthkv.demo.engine_events import METRICS
from hearthkv.demo.turn_saves import TurnSaves
from hearthkv.metrics import PrometheusMeters
from hearthkv.telemetry import Telemetry
from hearthkv.v1.cache_node_pb2 import WRITE_STATUS_NO_ROOM
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode
from tests.fakes.servers import serving
from tests.unit.hearthkv.demo.engine_kit import PATIENT

SPEC = NamespaceSpec(b"n" * 16, block_size=4, block_bytes=64)
S = SessionId("s")


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


@pytest.fixture
def meters() -> PrometheusMeters:
    return PrometheusMeters(METRICS)


def saves_with(meters: PrometheusMeters, **limits: float) -> TurnSaves:
    return TurnSaves(SystemClock(), Telemetry(logging.getLogger("test"), meters), **limits)


@pytest.fixture
def saves(meters: PrometheusMeters) -> TurnSaves:
    return saves_with(meters, batch_bytes=2 * SPEC.block_bytes)


async def turn_of(kv: HearthKV, address: str, blocks: int, session: str = S, seed: int = 0) -> Turn:
    tokens = [seed * 1000 + n for n in range(blocks * SPEC.block_size)]
    return await kv.begin_turn(session, SPEC, tokens, node=address)


def payloads(blocks: int, first: int = 0) -> list[memoryview]:
    return [memoryview(bytes([index]) * SPEC.block_bytes) for index in range(first, first + blocks)]


def stored(node: FakeNode, turn: Turn) -> list[int | None]:
    """The first byte of each of a turn's blocks on the node; None where it is not there."""
    held = [node.blocks.get((SPEC.namespace_id, key)) for key in turn.keys]
    return [block.payload[0] if block else None for block in held]


async def test_blocks_are_saved_batch_by_batch(kv, address, node, saves, meters):
    turn = await turn_of(kv, address, 5)
    saves.begin(turn, 0, payloads(5))
    assert saves.under_way(S)
    await saves.close()
    assert not saves.under_way(S)
    assert stored(node, turn) == [0, 1, 2, 3, 4]
    assert [len(batch) for batch in node.write_batches] == [2, 2, 1]
    assert meters.value("engine_saved_blocks_total") == 5


async def test_a_payload_is_at_hand_until_it_is_saved(kv, address, node, saves):
    turn = await turn_of(kv, address, 3)
    saves.begin(turn, 1, payloads(2, first=1))
    assert [payload and payload[0] for payload in map(saves.get, turn.keys)] == [None, 1, 2]
    await saves.close()
    assert [saves.get(key) for key in turn.keys] == [None, None, None]


async def test_nothing_to_save_is_no_save(kv, address, node, saves):
    saves.begin(await turn_of(kv, address, 1), 0, [])
    assert not saves.under_way(S)
    await saves.close()
    assert node.calls["Write"] == 0


async def test_a_save_starts_where_the_sessions_last_save_has_come_to(kv, address, node, saves):
    first, second = await turn_of(kv, address, 3), await turn_of(kv, address, 5)
    saves.begin(first, 0, payloads(3))
    saves.begin(second, 0, payloads(5), saves.under_way(S))
    await saves.close()
    assert stored(node, second) == [0, 1, 2, 3, 4]
    assert sum(map(len, node.write_batches)) == 5


async def test_a_save_starts_where_the_prompt_parts_from_the_last_one(kv, address, node, saves):
    first = await turn_of(kv, address, 3)
    first.extend([7] * SPEC.block_size)
    second = await turn_of(kv, address, 5)
    saves.begin(first, 0, payloads(4))
    saves.begin(second, 0, payloads(5), saves.under_way(S))
    await saves.close()
    assert stored(node, second) == [0, 1, 2, 3, 4]
    assert sum(map(len, node.write_batches)) == 4 + 2


async def test_a_save_of_another_prompt_starts_at_its_own_first_block(kv, address, node, saves):
    first, second = await turn_of(kv, address, 3), await turn_of(kv, address, 4, seed=1)
    saves.begin(first, 0, payloads(3))
    saves.begin(second, 0, payloads(4), saves.under_way(S))
    await saves.close()
    assert stored(node, second) == [0, 1, 2, 3]


async def test_a_save_shorter_than_the_last_one_has_all_its_blocks_held(kv, address, node, saves):
    first, second = await turn_of(kv, address, 5), await turn_of(kv, address, 3)
    saves.begin(first, 0, payloads(5))
    saves.begin(second, 0, payloads(3), saves.under_way(S))
    await saves.close()
    assert stored(node, second) == [0, 1, 2]


async def test_what_is_refused_ends_a_save(kv, address, node, saves, meters):
    node.troubles["Write"] = Fail(grpc.StatusCode.UNAVAILABLE, is_answer=True)
    saves.begin(await turn_of(kv, address, 9), 0, payloads(9))
    await saves.close()
    assert node.calls["Write"] == 1
    assert meters.value("engine_saved_blocks_total") == 0


async def test_a_save_after_a_refused_one_starts_anew(kv, address, node, saves):
    first, second = await turn_of(kv, address, 2), await turn_of(kv, address, 3)
    node.write_statuses = [[WRITE_STATUS_NO_ROOM] * 2]
    saves.begin(first, 0, payloads(2))
    saves.begin(second, 0, payloads(3), saves.under_way(S))
    await saves.close()
    assert stored(node, second) == [0, 1, 2]


async def test_a_turn_without_a_node_saves_nothing(kv, saves, meters):
    turn = await kv.begin_turn(S, SPEC, list(range(8)))
    saves.begin(turn, 0, payloads(2))
    await saves.close()
    assert meters.value("engine_saved_blocks_total") == 0


async def test_a_save_that_is_over_still_tells_the_next_one_how_far_it_came(
    kv, address, node, saves
):
    first, second = await turn_of(kv, address, 3), await turn_of(kv, address, 5)
    saves.begin(first, 0, payloads(3))
    earlier = saves.under_way(S)
    await saves.close()
    saves.begin(second, 0, payloads(5), earlier)
    await saves.close()
    assert sum(map(len, node.write_batches)) == 5


async def test_saves_above_the_limit_are_given_up(kv, address, node, meters):
    saves = saves_with(meters, waiting_bytes_max=4 * SPEC.block_bytes)
    large, small = await turn_of(kv, address, 6), await turn_of(kv, address, 1, "t", seed=1)
    saves.begin(large, 0, payloads(6))
    saves.begin(small, 0, payloads(1))
    assert not saves.under_way(SessionId("t"))
    await saves.close()
    saves.begin(small, 0, payloads(1))
    await saves.close()
    assert (stored(node, large), stored(node, small)) == ([0, 1, 2, 3, 4, 5], [0])


async def test_a_node_that_says_nothing_keeps_nobody_waiting_for_long(address, node, saves, meters):
    node.troubles["Write"] = Stall()
    async with hearthkv.connect(settings=replace(PATIENT, finish_s=0.1)) as hasty:
        saves.begin(await turn_of(hasty, address, 4), 0, payloads(4))
        await saves.close()
    assert not saves.under_way(S)
    assert meters.value("engine_saved_blocks_total") == 0


async def test_the_end_of_the_process_gives_up_what_takes_too_long(address, node, meters):
    node.troubles["Write"] = Stall()
    saves = saves_with(meters, close_s=0.05)
    async with hearthkv.connect(settings=PATIENT) as kv:
        turn, other = await turn_of(kv, address, 1), await turn_of(kv, address, 1, "t", seed=1)
        saves.begin(turn, 0, payloads(1))
        saves.begin(turn, 0, payloads(1), saves.under_way(S))
        saves.begin(other, 0, payloads(1))
        await saves.close()
        assert not saves.under_way(S)
        assert not saves.under_way(SessionId("t"))


async def test_a_save_goes_on_where_the_one_before_it_was_cancelled(kv, address, node, saves):
    turn = await turn_of(kv, address, 2)
    saves.begin(turn, 0, payloads(2))
    cancelled = saves.under_way(S)
    cancelled.cancel()
    saves.begin(turn, 0, payloads(2), cancelled)
    await saves.close()
    assert stored(node, turn) == [0, 1]
