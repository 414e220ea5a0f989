"""Tests of hearthkv/client/turn.py."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import grpc
import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from hearthkv.client.kv import HearthKV
from hearthkv.client.outcome import Finished, Loaded, MissReason
from hearthkv.client.turn import Turn
from hearthkv.core.errors import BadInputError, BlockSizeError, LayoutMismatchError
from hearthkv.core.tier import TierCounts
from hearthkv.v1 import block_pb2, cache_node_pb2
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode, Step
from tests.fakes.servers import serving
from tests.unit.hearthkv.client.client_kit import (
    BLOCK_BYTES,
    BLOCKS,
    IMPATIENT,
    KEYS,
    PATIENT,
    PAYLOADS,
    SPEC,
    TOKENS,
    client,
    holding,
)

STEPS = 3 * BLOCKS + 1  # three chunks a block, and the end
Bend = Callable[[list[cache_node_pb2.ReadResponse]], list[Step]]


async def begin(kv: HearthKV, address: str) -> Turn:
    return await kv.begin_turn("s", SPEC, TOKENS, node=address)


def new_buffer() -> bytearray:
    return bytearray(BLOCKS * BLOCK_BYTES)


# How a node may misbehave: (bend, blocks that are right, reason).


def changed(at: int, change: Callable[[cache_node_pb2.ReadResponse], object]) -> Bend:
    def bend(steps: list[cache_node_pb2.ReadResponse]) -> list[Step]:
        change(steps[at])
        return list(steps)

    return bend


def flip(step: cache_node_pb2.ReadResponse) -> None:
    data = bytearray(step.chunk.data)
    data[0] ^= 1
    step.chunk.data = bytes(data)


def set_header(**fields: object) -> Callable[[cache_node_pb2.ReadResponse], None]:
    def change(step: cache_node_pb2.ReadResponse) -> None:
        for name, value in fields.items():
            setattr(step.chunk.header, name, value)

    return change


def replaced(at: int, *messages: Step) -> Bend:
    return lambda steps: [*steps[:at], *messages, *steps[at + 1 :]]


def ending(at: int, *messages: Step) -> Bend:
    return lambda steps: [*steps[:at], *messages]


def end_of(value: int) -> cache_node_pb2.ReadResponse:
    return cache_node_pb2.ReadResponse(end=value)  # type: ignore[arg-type]


REASON_OF_STATUS = {
    grpc.StatusCode.UNAVAILABLE: MissReason.NODE_UNREACHABLE,
    grpc.StatusCode.CANCELLED: MissReason.NODE_UNREACHABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: MissReason.TIMEOUT,
}
FAILURES = [
    pytest.param(
        ending(4, Fail(code)), 1, REASON_OF_STATUS.get(code, MissReason.REFUSED), id=code.name
    )
    for code in grpc.StatusCode
    if code is not grpc.StatusCode.OK
]
STALLS = [
    pytest.param(ending(at, Stall()), at // 3, MissReason.TIMEOUT, id=f"stall-at-{at}")
    for at in (0, 1, 3, 8, 14)
]
CUTS = [
    pytest.param(ending(at), at // 3, MissReason.BAD_ANSWER, id=f"cut-at-{at}")
    for at in range(STEPS - 1)
]
FLIPS = [
    pytest.param(changed(at, flip), at // 3, MissReason.CORRUPT, id=f"flip-in-{at}")
    for at in range(STEPS - 1)
]
OTHERS = [
    pytest.param(changed(3, set_header(size_bytes=2999)), 1, MissReason.BAD_ANSWER, id="size"),
    pytest.param(
        changed(3, set_header(size_bytes=1 << 60)), 1, MissReason.BAD_ANSWER, id="huge-size"
    ),
    pytest.param(changed(3, set_header(key=KEYS[2])), 1, MissReason.BAD_ANSWER, id="other-key"),
    pytest.param(changed(3, set_header(key=b"")), 1, MissReason.BAD_ANSWER, id="no-key"),
    pytest.param(changed(3, set_header(key=b"k" * 33)), 1, MissReason.BAD_ANSWER, id="long-key"),
    pytest.param(changed(3, set_header(tier=0)), 1, MissReason.BAD_ANSWER, id="no-tier"),
    pytest.param(changed(3, set_header(tier=99)), 1, MissReason.BAD_ANSWER, id="unknown-tier"),
    pytest.param(changed(3, set_header(checksum=1)), 1, MissReason.CORRUPT, id="checksum"),
    pytest.param(
        changed(3, lambda step: step.chunk.ClearField("header")),
        1,
        MissReason.BAD_ANSWER,
        id="no-header",
    ),
    pytest.param(
        lambda steps: [*steps[:3], *steps[6:9], *steps[3:6]], 1, MissReason.BAD_ANSWER, id="order"
    ),
    pytest.param(lambda steps: [*steps[:3], *steps], 1, MissReason.BAD_ANSWER, id="again"),
    pytest.param(lambda steps: [*steps[:5], *steps[6:]], 1, MissReason.BAD_ANSWER, id="lost-chunk"),
    pytest.param(
        lambda steps: [*steps[:5], steps[4], *steps[5:]], 1, MissReason.BAD_ANSWER, id="twice"
    ),
    pytest.param(
        replaced(4, cache_node_pb2.ReadResponse()), 1, MissReason.BAD_ANSWER, id="no-step"
    ),
    pytest.param(
        replaced(4, cache_node_pb2.ReadResponse(chunk=block_pb2.BlockChunk())),
        1,
        MissReason.BAD_ANSWER,
        id="empty-chunk",
    ),
    pytest.param(
        replaced(
            4, cache_node_pb2.ReadResponse(chunk=block_pb2.BlockChunk(data=bytes(1024 * 1024 + 1)))
        ),
        1,
        MissReason.BAD_ANSWER,
        id="large-chunk",
    ),
    pytest.param(
        replaced(
            4, cache_node_pb2.ReadResponse(chunk=block_pb2.BlockChunk(data=bytes(5 * 1024 * 1024)))
        ),
        1,
        MissReason.REFUSED,
        id="large-message",
    ),
    pytest.param(ending(6, end_of(99)), 2, MissReason.BAD_ANSWER, id="unknown-end"),
    pytest.param(ending(6, end_of(0)), 2, MissReason.BAD_ANSWER, id="unspecified-end"),
    pytest.param(ending(6, end_of(1)), 2, MissReason.BAD_ANSWER, id="complete-too-early"),
    pytest.param(ending(6, end_of(2)), 2, MissReason.NOT_HELD, id="miss"),
    pytest.param(ending(7, end_of(3)), 2, MissReason.LOST, id="lost-within-a-block"),
    pytest.param(ending(6, end_of(4)), 2, MissReason.TIER_UNAVAILABLE, id="tier-unavailable"),
    pytest.param(lambda steps: [steps[-1]], 0, MissReason.BAD_ANSWER, id="nothing-and-complete"),
]


@pytest.mark.parametrize(("bend", "blocks", "reason"), [*FAILURES, *STALLS, *CUTS, *FLIPS, *OTHERS])
async def test_every_misbehaviour_is_a_miss_and_never_wrong_bytes(
    bend: Bend, blocks: int, reason: MissReason
):
    node = holding()
    node.read_bends = bend
    # Only a stall is waited for.
    settings = IMPATIENT if reason is MissReason.TIMEOUT else PATIENT
    async with serving(node) as address, client(settings=settings) as kv:
        turn, buffer = await begin(kv, address), new_buffer()
        loaded = await turn.load_into(buffer)
        expected = Loaded(blocks, blocks * SPEC.block_size, TierCounts(dram=blocks), reason)
        assert loaded == expected
        assert buffer[: blocks * BLOCK_BYTES] == b"".join(PAYLOADS[:blocks])
        turn.save(blocks, PAYLOADS[blocks:])
        await turn.finish()


@dataclass(frozen=True)
class Change:
    """One thing that goes wrong at one message of a read."""

    at: int
    kind: str

    def __call__(self, steps: list[cache_node_pb2.ReadResponse]) -> list[Step]:
        at, step = self.at, steps[self.at]
        if self.kind == "flip":
            if step.chunk.data:
                flip(step)
            return list(steps)
        bent: dict[str, list[Step]] = {
            "drop": [*steps[:at], *steps[at + 1 :]],
            "repeat": [*steps[:at], step, *steps[at:]],
            "swap": [*steps[:at], *reversed(steps[at : at + 2]), *steps[at + 2 :]],
            "cut": list(steps[:at]),
            "fail": [*steps[:at], Fail(grpc.StatusCode.UNAVAILABLE)],
            "jump": [*steps[:at], *steps[at + 3 :]],
        }
        return bent[self.kind]


CHANGES = st.builds(
    Change,
    st.integers(0, STEPS - 1),
    st.sampled_from(["flip", "drop", "repeat", "swap", "cut", "fail", "jump"]),
)


def test_wherever_a_read_goes_wrong_the_prefix_is_right():
    async def load(change: Change) -> tuple[Loaded, bytearray]:
        node = holding()
        node.read_bends = change
        async with serving(node) as address, client() as kv:
            buffer = new_buffer()
            return await (await begin(kv, address)).load_into(buffer), buffer

    with asyncio.Runner() as runner:

        @examples(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(CHANGES)
        def check(change: Change) -> None:
            loaded, buffer = runner.run(load(change))
            assert loaded.blocks >= min(change.at // 3, BLOCKS)
            assert buffer[: loaded.blocks * BLOCK_BYTES] == b"".join(PAYLOADS[: loaded.blocks])
            assert (loaded.miss is None) == (loaded.blocks == BLOCKS)

        check()


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
