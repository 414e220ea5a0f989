"""Tests of hearthkv/client/node_client.py."""

import grpc
import pytest

from hearthkv.client.channels import Channels
from hearthkv.client.deadline import Deadline
from hearthkv.client.outcome import MissReason
from hearthkv.client.prefix_assembly import PrefixAssembly
from hearthkv.client.settings import ClientSettings
from hearthkv.codec.block import chunks_of
from hearthkv.core.block_io import (
    BlockChunk,
    BlockHeader,
    DropSession,
    KeysQuery,
    Matched,
    MatchQuery,
    PinQuery,
    ReadQuery,
    WriteStart,
    WriteStatus,
)
from hearthkv.core.checksum import block_checksum
from hearthkv.core.errors import PeerContractError, PeerRefusedError, PeerTimeoutError
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import TierCounts
from hearthkv.v1 import block_pb2, cache_node_pb2
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode
from tests.fakes.servers import serving
from tests.unit.hearthkv.client.client_kit import (
    BLOCK_BYTES,
    BLOCKS,
    IMPATIENT,
    KEYS,
    PATIENT,
    PAYLOADS,
    SPEC,
    holding,
    node_client,
)

QUERY = KeysQuery(SPEC.namespace_id, KEYS)
MATCH = MatchQuery(SPEC.namespace_id, KEYS)
READ = ReadQuery(SPEC.namespace_id, KEYS, 0, SessionId("s"))
LATER = Deadline(100.0)


def new_assembly() -> tuple[PrefixAssembly, bytearray]:
    buffer = bytearray(BLOCKS * BLOCK_BYTES)
    view = memoryview(buffer)
    assembly = PrefixAssembly(
        view, KEYS, namespace_id=SPEC.namespace_id, block_bytes=SPEC.block_bytes
    )
    return assembly, buffer


async def test_the_held_prefix_is_matched(channels: Channels):
    async with serving(holding(3)) as address:
        client = node_client(channels, address)
        assert await client.match(MATCH) == Matched(TierCounts(dram=3), 3)


async def test_a_match_longer_than_the_prompt_breaks_the_contract(channels: Channels):
    node = FakeNode()
    node.matched = [block_pb2.TierBlocks(tier=block_pb2.TIER_SSD, blocks=6)]
    async with serving(node) as address:
        with pytest.raises(PeerContractError, match="matches 6 blocks, must be <= 5"):
            await node_client(channels, address).match(MATCH)


async def test_blocks_are_read_into_an_assembly(channels: Channels):
    node = holding()
    async with serving(node) as address:
        assembly, buffer = new_assembly()
        await node_client(channels, address).read(READ, assembly, LATER)
    assert assembly.is_complete
    assert buffer == b"".join(PAYLOADS)
    assert node.last_read is not None
    assert node.last_read.session_id == "s"


async def test_a_read_that_made_progress_and_is_late_blames_nobody(channels: Channels):
    node = holding()
    node.read_bends = lambda steps: [*steps[:4], Stall()]
    async with serving(node) as address:
        client = node_client(channels, address)
        assembly, _ = new_assembly()
        await client.read(READ, assembly, Deadline(0.5))
    assert (assembly.blocks, assembly.miss) == (1, MissReason.TIMEOUT)
    assert client.calls.skipped() == frozenset()


async def test_a_read_without_any_progress_blames_the_node(channels: Channels):
    node = holding()
    node.read_bends = lambda _: [Stall()]
    async with serving(node) as address:
        client = node_client(channels, address)
        with pytest.raises(PeerTimeoutError, match=r"sent nothing for 0\.2 s"):
            await client.read(READ, new_assembly()[0], Deadline(0.2))
    assert client.calls.skipped() == {address}


@pytest.mark.parametrize(
    ("bend", "settings"),
    [
        (lambda steps: [*steps[:-1], Stall()], IMPATIENT),
        (lambda steps: [*steps[:-1], Fail(grpc.StatusCode.UNAVAILABLE)], PATIENT),
        (lambda steps: [*steps, *steps], PATIENT),
        (lambda steps: steps[:-1], PATIENT),
    ],
    ids=["stall", "failure", "more-bytes", "no-end"],
)
async def test_what_comes_after_the_last_block_changes_nothing(
    channels: Channels, bend, settings: ClientSettings
):
    node = holding()
    node.read_bends = bend
    async with serving(node) as address:
        client = node_client(channels, address, settings)
        assembly, buffer = new_assembly()
        await client.read(READ, assembly, LATER)
    assert assembly.is_complete
    assert buffer == b"".join(PAYLOADS)
    assert client.calls.skipped() == frozenset()


async def test_blocks_are_written_and_their_statuses_come_back(channels: Channels):
    node = holding(1)
    chunks = chunks_of_blocks(0, 1, 3)
    async with serving(node) as address:
        statuses = await node_client(channels, address).write(WriteStart(SPEC, None), chunks)
    assert statuses == [
        WriteStatus.ALREADY_HELD,
        WriteStatus.STORED,
        WriteStatus.PARENT_MISSING,
    ]


def chunks_of_blocks(*indexes: int) -> list[BlockChunk]:
    headers = [
        BlockHeader(
            key=KEYS[index],
            parent_key=KEYS[index - 1] if index else b"",
            size_bytes=BLOCK_BYTES,
            checksum=block_checksum(SPEC.namespace_id, KEYS[index], PAYLOADS[index]),
        )
        for index in indexes
    ]
    return [
        chunk
        for header, index in zip(headers, indexes, strict=True)
        for chunk in chunks_of(header, PAYLOADS[index])
    ]


@pytest.mark.parametrize(
    ("takes_chunks", "messages"), [(False, [3, 6]), (True, [3, 5])], ids=["not-said", "said"]
)
async def test_small_blocks_share_a_message_once_the_node_said_so(
    channels: Channels, takes_chunks: bool, messages: list[int]
):
    node = holding(0)
    node.takes_chunks = takes_chunks
    counts = []
    async with serving(node) as address:
        client = node_client(channels, address)
        for indexes in ((0, 1), (2, 3)):
            chunks = chunks_of_blocks(*indexes)
            statuses = await client.write(WriteStart(SPEC, None), chunks)
            assert statuses == [WriteStatus.STORED] * 2
            counts.append(node.write_messages)
    assert counts == messages


async def test_a_node_that_fails_may_be_another_one_next_time(channels: Channels):
    node = holding(0)
    node.takes_chunks = True
    async with serving(node) as address:
        client = node_client(channels, address)
        await client.write(WriteStart(SPEC, None), chunks_of_blocks(0))
        node.troubles["Write"] = Fail(grpc.StatusCode.INVALID_ARGUMENT)
        with pytest.raises(PeerRefusedError):
            await client.write(WriteStart(SPEC, None), chunks_of_blocks(1, 2))
        del node.troubles["Write"]
        node.write_messages = 0
        await client.write(WriteStart(SPEC, None), chunks_of_blocks(1, 2))
    assert node.write_messages == 3


async def test_blocks_that_share_a_message_are_read(channels: Channels):
    node = holding()
    node.read_bends = lambda steps: [together(steps[:-1]), steps[-1]]
    async with serving(node) as address:
        assembly, buffer = new_assembly()
        await node_client(channels, address).read(READ, assembly, LATER)
    assert assembly.is_complete
    assert buffer == b"".join(PAYLOADS)
    assert node.last_read is not None
    assert node.last_read.takes_chunks


def together(steps: list[cache_node_pb2.ReadResponse]) -> cache_node_pb2.ReadResponse:
    chunks = block_pb2.BlockChunks(chunks=[step.chunk for step in steps])
    return cache_node_pb2.ReadResponse(chunks=chunks)


async def test_the_calls_for_people_are_answered(channels: Channels):
    node = holding(2)
    async with serving(node) as address:
        client = node_client(channels, address)
        assert await client.prefetch(QUERY) == 2
        pinned = await client.pin(PinQuery(SPEC.namespace_id, KEYS, 60.0))
        assert (pinned.pin_id, pinned.blocks) == ("pin-1", 2)
        assert await client.unpin("pin-1") == 5
        assert await client.drop(DropSession(SessionId("s"))) == 1
        assert (await client.describe()).epoch == 7
    assert node.dropped[0].session.session_id == "s"
