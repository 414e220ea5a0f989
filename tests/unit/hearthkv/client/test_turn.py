"""Tests of hearthkv/client/turn.py."""

import asyncio

import grpc
import numpy as np
import pytest

from hearthkv.client.kv import HearthKV
from hearthkv.client.outcome import Finished, Loaded, MissReason
from hearthkv.client.turn import Turn
from hearthkv.codec.cache_node import decode_end_turn_request
from hearthkv.core.errors import BadInputError, BlockSizeError, LayoutMismatchError
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import TierCounts
from hearthkv.core.turn_end import EndedTurn, TurnEnd
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode
from tests.fakes.servers import serving
from tests.unit.hearthkv.client.bent_reads import (
    changed,
    ending,
    flip,
)
from tests.unit.hearthkv.client.client_kit import (
    BLOCK_BYTES,
    BLOCKS,
    KEYS,
    PAYLOADS,
    SPEC,
    TOKENS,
    client,
    holding,
)


async def begin(kv: HearthKV, address: str) -> Turn:
    return await kv.begin_turn("s", SPEC, TOKENS, node=address)


def new_buffer() -> bytearray:
    return bytearray(BLOCKS * BLOCK_BYTES)


async def test_a_damaged_block_is_dropped_at_its_node():
    node = holding()
    node.read_bends = changed(7, flip)
    async with serving(node) as address, client() as kv:
        await (await begin(kv, address)).load_into(new_buffer())
    (drop,) = node.dropped
    assert drop.blocks.keys.keys == KEYS[2]
    assert drop.blocks.namespace_id == SPEC.namespace_id


async def test_a_drop_that_fails_is_no_trouble():
    node = holding()
    node.read_bends = changed(7, flip)
    node.troubles["Drop"] = Fail(grpc.StatusCode.INTERNAL)
    async with serving(node) as address, client() as kv:
        loaded = await (await begin(kv, address)).load_into(new_buffer())
    assert loaded.miss is MissReason.CORRUPT


async def test_a_turn_knows_its_place():
    async with serving(holding(3)) as address, client() as kv:
        turn = await begin(kv, address)
    assert (turn.session_id, turn.node_id, turn.node_address) == ("s", None, address)
    assert (turn.reason, turn.engine_url, turn.miss_reason) == (None, "", None)
    assert (turn.matched, turn.matched_tokens) == (TierCounts(dram=3), 12)
    assert (turn.block_size, turn.block_bytes, turn.keys) == (4, BLOCK_BYTES, KEYS)


async def test_a_prefix_is_loaded_into_an_array():
    async with serving(holding()) as address, client() as kv:
        array = np.zeros((BLOCKS, BLOCK_BYTES // 4), np.float32)
        loaded = await (await begin(kv, address)).load_into(array)
    assert loaded == Loaded(5, 20, TierCounts(dram=5))
    assert array.tobytes() == b"".join(PAYLOADS)


async def test_a_load_may_begin_behind_what_the_caller_has():
    node = holding()
    async with serving(node) as address, client() as kv:
        turn, buffer = await begin(kv, address), bytearray(3 * BLOCK_BYTES)
        assert await turn.load_into(buffer, 2) == Loaded(3, 12, TierCounts(dram=3))
    assert buffer == b"".join(PAYLOADS[2:])
    assert node.last_read is not None
    assert node.last_read.first_block == 2


async def test_a_load_asks_for_as_much_as_fits():
    node = holding()
    async with serving(node) as address, client() as kv:
        turn = await begin(kv, address)
        buffer = bytearray(5 * BLOCK_BYTES + 17)
        assert (await turn.load_into(buffer, 1)).blocks == 4


async def test_a_load_may_ask_for_less_than_matched():
    async with serving(holding()) as address, client() as kv:
        loaded = await (await begin(kv, address)).load_into(bytearray(2 * BLOCK_BYTES), blocks=2)
    assert loaded == Loaded(2, 8, TierCounts(dram=2))


async def test_a_load_of_nothing_asks_nobody():
    node = holding(0)
    async with serving(node) as address, client() as kv:
        turn = await begin(kv, address)
        assert await turn.load_into(bytearray()) == Loaded(miss=MissReason.NOT_HELD)
        assert await turn.load_into(bytearray(), blocks=0) == Loaded(miss=MissReason.NOT_HELD)
    assert node.calls["Read"] == 0


async def test_a_load_has_the_deadline_of_its_caller():
    node = holding()
    node.read_bends = ending(4, Stall())
    async with serving(node) as address, client() as kv:
        turn = await begin(kv, address)
        loaded = await turn.load_into(new_buffer(), deadline_s=0.2)
    assert loaded.miss is MissReason.TIMEOUT


@pytest.mark.parametrize(
    ("first_block", "blocks", "found"),
    [
        (-1, None, "first_block is -1, must be in 0..5"),
        (6, None, "first_block is 6, must be in 0..5"),
        (2, 4, "blocks is 4, must be in 0..3"),
        (0, -1, "blocks is -1, must be in 0..5"),
    ],
)
async def test_blocks_that_the_prompt_does_not_have_are_the_callers_mistake(
    first_block: int, blocks: int | None, found: str
):
    async with serving(holding()) as address, client() as kv:
        turn = await begin(kv, address)
        with pytest.raises(BadInputError, match=found.replace("..", r"\.\.")):
            await turn.load_into(new_buffer(), first_block, blocks=blocks)


@pytest.mark.parametrize(
    ("buffer", "found"),
    [
        (bytearray(5 * BLOCK_BYTES - 1), "buffer is 14999 bytes, must be 15000 at least"),
        (bytes(5 * BLOCK_BYTES), "read-only"),
        (np.zeros((BLOCK_BYTES, 10), np.uint8)[:, ::2], "C-contiguous"),
    ],
    ids=["small", "read-only", "gaps"],
)
async def test_a_buffer_that_does_not_fit_is_the_callers_mistake(buffer: bytes, found: str):
    node = holding()
    async with serving(node) as address, client() as kv:
        turn = await begin(kv, address)
        with pytest.raises(LayoutMismatchError, match=found):
            await turn.load_into(buffer)
    assert node.calls["Read"] == 0


async def test_a_cancelled_load_ends_its_call():
    node, stall = holding(), Stall()
    node.read_bends = ending(4, stall)
    async with serving(node) as address, client() as kv:
        turn = await begin(kv, address)
        task = asyncio.create_task(turn.load_into(new_buffer()))
        await stall.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await stall.ended.wait()
        node.read_bends = list
        assert (await turn.load_into(new_buffer())).blocks == BLOCKS


async def test_what_a_turn_saves_the_next_one_loads():
    node = FakeNode()
    async with serving(node) as address, client() as kv:
        turn = await begin(kv, address)
        assert turn.miss_reason is MissReason.NOT_HELD
        assert turn.save(0, PAYLOADS) == BLOCKS
        assert turn.extend([22, 23, 24]) == 6
        assert turn.save(5, [b"z" * BLOCK_BYTES]) == 1
        assert await turn.finish() == Finished(saved_blocks=6)

        again = await kv.begin_turn("s", SPEC, [*TOKENS, 22, 23, 99], node=address)
        buffer = bytearray(6 * BLOCK_BYTES)
        assert await again.load_into(buffer) == Loaded(6, 24, TierCounts(dram=6))
    assert buffer == b"".join([*PAYLOADS, b"z" * BLOCK_BYTES])


async def test_an_extension_adds_no_block_to_load():
    node = holding()
    async with serving(node) as address, client() as kv:
        turn = await begin(kv, address)
        turn.extend(range(100))
        await turn.load_into(bytearray(40 * BLOCK_BYTES))
    assert node.last_read is not None
    assert node.last_read.keys.keys == KEYS.packed


async def test_a_token_out_of_bounds_is_the_callers_mistake_and_changes_nothing():
    async with serving(holding()) as address, client() as kv:
        turn = await begin(kv, address)
        with pytest.raises(BadInputError):
            turn.extend([1 << 32])
        assert turn.extend([22, 23]) == 6


@pytest.mark.parametrize(("first_block", "count"), [(-1, 1), (0, 6), (5, 1), (9, 0)])
async def test_a_block_without_tokens_is_the_callers_mistake(first_block: int, count: int):
    async with serving(FakeNode()) as address, client() as kv:
        turn = await begin(kv, address)
        with pytest.raises(BadInputError, match=r"must be in 0\.\.5"):
            turn.save(first_block, [bytes(BLOCK_BYTES)] * count)


async def test_a_payload_of_another_size_is_the_callers_mistake():
    async with serving(FakeNode()) as address, client() as kv:
        turn = await begin(kv, address)
        with pytest.raises(BlockSizeError, match="payload 1 is 2999 bytes, must be 3000"):
            turn.save(0, [bytes(BLOCK_BYTES), bytes(BLOCK_BYTES - 1)])


async def test_saves_are_counted_once():
    node = FakeNode()
    async with serving(node) as address, client() as kv:
        turn = await begin(kv, address)
        turn.save(0, PAYLOADS)
        await turn.finish(20)
        await turn.finish(20)
        assert kv.stats.saved_blocks == BLOCKS


async def test_a_node_is_told_how_a_turn_ended():
    node = holding()
    async with serving(node) as address, client() as kv:
        turn = await begin(kv, address)
        await turn.finish(end="tool_call", returns_in_s=20)
        await turn.finish()  # says nothing
    (told,) = map(decode_end_turn_request, node.ended_turns)
    assert told == EndedTurn(SessionId("s"), TurnEnd.TOOL_CALL, 20)


async def test_a_node_is_told_of_an_end_that_nobody_can_name():
    node = holding()
    async with serving(node) as address, client() as kv:
        await (await begin(kv, address)).finish()
    (told,) = map(decode_end_turn_request, node.ended_turns)
    assert told == EndedTurn(SessionId("s"), TurnEnd.UNKNOWN)


async def test_a_node_that_hangs_at_the_end_costs_no_more_than_the_deadline():
    node = holding()
    node.troubles["EndTurn"] = Stall()
    async with serving(node) as address, client() as kv, asyncio.timeout(20):
        turn = await begin(kv, address)
        assert await turn.finish(0.05) == Finished()


async def test_a_node_that_does_not_want_to_know_is_no_trouble():
    node = holding()
    node.troubles["EndTurn"] = Fail(grpc.StatusCode.UNIMPLEMENTED)
    async with serving(node) as address, client() as kv:
        turn = await begin(kv, address)
        assert await turn.finish(end=TurnEnd.FINAL) == Finished()


@pytest.mark.parametrize(("end", "returns_in_s"), [("soon", None), ("answer", -1.0)])
async def test_an_end_that_can_not_be_is_refused(end: str, returns_in_s: float | None):
    async with serving(holding()) as address, client() as kv:
        turn = await begin(kv, address)
        with pytest.raises(BadInputError, match="must be"):
            await turn.finish(end=end, returns_in_s=returns_in_s)
