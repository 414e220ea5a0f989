"""Tests of hearthkv/client/turn.py: whatever a node does wrong is a miss with a reason (I1, I5)."""

import asyncio
from dataclasses import dataclass

import grpc
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from hearthkv.client.kv import HearthKV
from hearthkv.client.outcome import Loaded, MissReason
from hearthkv.client.turn import Turn
from hearthkv.core.tier import TierCounts
from hearthkv.v1 import block_pb2, cache_node_pb2
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import Step
from tests.fakes.servers import serving
from tests.unit.hearthkv.client.bent_reads import (
    Bend,
    changed,
    end_of,
    ending,
    flip,
    replaced,
    set_header,
)
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


async def begin(kv: HearthKV, address: str) -> Turn:
    return await kv.begin_turn("s", SPEC, TOKENS, node=address)


def new_buffer() -> bytearray:
    return bytearray(BLOCKS * BLOCK_BYTES)


# (bend, blocks that are right, reason)

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
