"""Tests of hearthkv/client/direct_plan.py."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.client.direct_plan import FILE_BYTES_MAX, DirectPlan, plan_reads
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.direct_path import BlockAddress, FileAddress, LocatedBlock, RedisAddress
from hearthkv.core.errors import PeerContractError
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from hearthkv.datapath.redis_names import RedisNames

BLOCK_BYTES = 10
NAMES = RedisNames(NodeId("a"))


def located(address: BlockAddress, sequence: int = 0) -> LocatedBlock:
    tier = Tier.DRAM if isinstance(address, RedisAddress) else Tier.SSD
    ref = BlockRef(b"n" * 16, b"k" * 16, b"", tier, sequence, 0, BLOCK_BYTES)
    return LocatedBlock(ref, address)


def plan(
    *addresses: BlockAddress, buffer: bytearray | None = None, has_files: bool = True
) -> DirectPlan:
    blocks = [located(address, sequence) for sequence, address in enumerate(addresses)]
    view = memoryview(buffer if buffer is not None else bytearray(len(blocks) * BLOCK_BYTES))
    return plan_reads(blocks, view, NAMES, servers=2, has_files=has_files)


def test_blocks_in_redis_are_read_server_by_server_under_their_names():
    made = plan(RedisAddress(1), RedisAddress(0), RedisAddress(1))
    assert {server: [each.block for each in reads] for server, reads in made.by_server.items()} == {
        1: [0, 2],
        0: [1],
    }
    read = made.by_server[1][1].read
    assert read.name == NAMES.block(b"n" * 16, b"k" * 16, 2)
    assert made.runs == []


def test_neighbours_in_a_file_are_one_read_and_runs_are_in_the_order_of_the_prompt():
    made = plan(FileAddress("b", 0), RedisAddress(0), FileAddress("a", 50), FileAddress("a", 60))
    assert [run.blocks for run in made.runs] == [(0,), (2, 3)]
    assert [ref.sequence for run in made.runs for ref in run.refs] == [0, 2, 3]


@given(st.permutations(range(4)))
def test_every_block_has_its_own_place_in_the_buffer(order):
    buffer = bytearray(4 * BLOCK_BYTES)
    made = plan(
        *(
            FileAddress("f", place * BLOCK_BYTES) if place % 2 else RedisAddress(0)
            for place in order
        ),
        buffer=buffer,
    )
    for run in made.runs:
        for block, part in zip(run.blocks, run.run.parts, strict=True):
            part[:] = bytes([65 + block]) * BLOCK_BYTES
    for reads in made.by_server.values():
        for each in reads:
            each.read.into[:] = bytes([65 + each.block]) * BLOCK_BYTES
    assert buffer == b"".join(bytes([65 + block]) * BLOCK_BYTES for block in range(4))


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "//etc/passwd",
        "a/../../b",
        "..",
        ".",
        "",
        "a//b",
        "./a",
        "a/",
        "a\0b",
        "a\nb",
        "x" * 1025,
    ],
    ids=repr,
)
def test_a_path_that_may_lead_out_of_the_folder_is_refused(name: str):
    with pytest.raises(PeerContractError, match="must be a plain path within the node's folder"):
        plan(FileAddress(name, 0))


@pytest.mark.parametrize("name", ["slab", "ab/cd/0001.slab", "..a", "a..b/c"])
def test_a_plain_path_is_taken(name: str):
    assert plan(FileAddress(name, 0)).runs[0].run.start.name == name


@pytest.mark.parametrize(
    ("address", "found"),
    [
        (RedisAddress(2), "block 0 lies in server 2, must be under 2"),
        (FileAddress("a", FILE_BYTES_MAX), f"offset is {FILE_BYTES_MAX}, must lie within a file"),
    ],
)
def test_a_place_that_can_not_be_is_refused(address: BlockAddress, found: str):
    with pytest.raises(PeerContractError, match=re.escape(found)):
        plan(address)


def test_a_node_without_a_folder_has_no_files():
    with pytest.raises(PeerContractError, match="there is no folder"):
        plan(FileAddress("a", 0), has_files=False)


def test_nothing_is_read_for_nothing():
    assert plan() == DirectPlan({}, [])
