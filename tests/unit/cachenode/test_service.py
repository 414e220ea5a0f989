"""Tests of `cachenode.service` beyond the contract: callers that stall in the middle of a call."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc import aio

from cachenode.service import CacheNodeService, add_to_server
from hearthkv.codec import cache_node as codec
from hearthkv.codec import pulls as pulls_codec
from hearthkv.codec.block import chunks_of
from hearthkv.codec.block_stream import WRITE_METHOD
from hearthkv.codec.status import decode_reason
from hearthkv.core.block_io import (
    BlockChunk,
    DropNamespace,
    ReadEnd,
    ReadQuery,
    WriteStart,
    WriteStatus,
)
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.pulls import Lineage, LineageQuery, PullEnd, PullProgress, PullQuery
from hearthkv.core.tier import Tier
from hearthkv.v1 import cache_node_pb2 as pb2
from hearthkv.v1 import cache_node_pb2_grpc
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, Rig, header_of, open_node, payload_of, prompt

STALL_S = 0.2
MANY = 1024  # more bytes than the transport takes from a node without a reader
SMALL_WINDOW = (("grpc.http2.lookahead_bytes", 65_536), ("grpc.http2.bdp_probe", 0))


@pytest.fixture
async def node() -> AsyncIterator[tuple[Rig, cache_node_pb2_grpc.CacheNodeStub]]:
    stores = {tier: MemoryStore(tier) for tier in (Tier.DRAM, Tier.SSD)}
    async with open_node(stores) as rig, _channel_to(rig) as channel:
        yield rig, cache_node_pb2_grpc.CacheNodeStub(channel)


@asynccontextmanager
async def _channel_to(rig: Rig) -> AsyncIterator[aio.Channel]:
    server = aio.server()
    add_to_server(CacheNodeService(rig.node, stall_s=STALL_S), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}", SMALL_WINDOW) as channel:
        yield channel
    await server.stop(grace=None)


def steps_of(keys: Sequence[bytes]) -> list[WriteStart | BlockChunk]:
    steps: list[WriteStart | BlockChunk] = [WriteStart(SPEC, None)]
    for key, before in zip(keys, [b"", *keys], strict=False):
        steps += chunks_of(header_of(key, before), payload_of(key))
    return steps


@pytest.mark.parametrize("blocks", [0, 1, 3, 9])
async def test_a_writer_that_stalls_is_given_up_and_keeps_what_it_sent(node, blocks: int):
    rig, stub = node
    keys = prompt(blocks)
    half = BlockChunk(header_of(b"h" * 16, keys[-1] if keys else b""), b"the first bytes")
    call = stub.Write()
    for step in [*steps_of(keys), half]:
        await call.write(codec.encode_write_step(step if isinstance(step, WriteStart) else (step,)))
    with pytest.raises(aio.AioRpcError) as told:
        await call
    assert told.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "sent nothing for 0.2 s" in (told.value.details() or "")
    assert decode_reason(told.value.trailing_metadata()) == "PEER_TIMEOUT"
    assert rig.match(keys) == blocks
    assert [usage.reserved_bytes for usage in rig.node.usage()] == [0, 0]
    assert rig.node.calls_in_flight == 0


async def test_a_reader_that_does_not_read_lets_go_of_what_it_asked_for(node):
    rig, stub = node
    keys = prompt(MANY)
    await rig.write(keys)
    query = ReadQuery(SPEC.namespace_id, PackedKeys.join(keys), 0, None)
    call = stub.Read(codec.encode_read_request(query))
    await call.read()
    assert rig.node.calls_in_flight == 1
    async with asyncio.timeout(20):
        while rig.node.calls_in_flight:  # noqa: ASYNC110 - the transport has no event for it
            await asyncio.sleep(0.01)
    # What is dropped now is erased at once: nothing holds it any more.
    rig.node.drop(DropNamespace(SPEC.namespace_id))
    await rig.node.settle()
    assert [usage.used_bytes for usage in rig.node.usage()] == [0, 0]
    await read_out(call)
    assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "took nothing for 0.2 s" in await call.details()


async def read_out(call) -> None:
    try:
        while await call.read() is not aio.EOF:
            pass
    except aio.AioRpcError:
        return


@pytest.mark.parametrize(("takes_chunks", "messages"), [(False, 10), (True, 2)])
async def test_small_blocks_share_a_message_where_the_reader_takes_that(
    node, takes_chunks: bool, messages: int
):
    rig, stub = node
    keys = prompt(9)
    await rig.write(keys)
    query = ReadQuery(SPEC.namespace_id, PackedKeys.join(keys), 0, None, takes_chunks)
    steps = [
        codec.decode_read_step(message)
        async for message in stub.Read(codec.encode_read_request(query))
    ]
    assert len(steps) == messages
    *parts, end = steps
    assert end is ReadEnd.COMPLETE
    chunks = [chunk for part in parts for chunk in part]
    assert [bytes(chunk.data) for chunk in chunks] == [payload_of(key) for key in keys]


async def test_small_blocks_may_be_written_together(node):
    rig, stub = node
    keys = prompt(9)
    start, *chunks = steps_of(keys)
    requests = [codec.encode_write_step(start), codec.encode_write_step(tuple(chunks))]
    answer = await stub.Write(iter(requests))
    assert codec.decode_write_response(answer) == [WriteStatus.STORED] * 9
    assert answer.takes_chunks
    assert rig.match(keys) == 9


async def test_a_pull_over_the_wire_ends_with_a_reason(node):
    rig, stub = node
    await rig.write(prompt(3))
    held = PullQuery(SPEC.namespace_id, PackedKeys(b""), prompt(3)[-1])
    unknown = PullQuery(SPEC.namespace_id, PackedKeys.join(prompt(5)), prompt(5)[-1])
    for query, last in (
        (held, PullProgress(3, 0, PullEnd.COMPLETE)),
        (unknown, PullProgress(3, 0, PullEnd.MISS)),
    ):
        call = stub.Pull(pulls_codec.encode_pull_request(query))
        answers = [pulls_codec.decode_pull_response(message) async for message in call]
        assert answers[-1] == last


@pytest.mark.parametrize("address", ["unix:/run/x:1", "nowhere"])
async def test_a_pull_from_what_is_no_address_is_bad_input(node, address: str):
    _, stub = node
    request = pb2.PullRequest(namespace_id=bytes(16), tip_key=b"t", source_address=address)
    with pytest.raises(aio.AioRpcError) as told:
        await stub.Pull(request).read()
    assert told.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_lineage_is_given_with_its_sizes(node):
    rig, stub = node
    await rig.write(prompt(3))
    for tip_key, expected in (
        (prompt(3)[1], Lineage(SPEC, PackedKeys.join(prompt(2)))),
        (b"x" * 16, Lineage(None, PackedKeys(b""))),
    ):
        query = LineageQuery(SPEC.namespace_id, tip_key)
        answer = await stub.Lineage(pulls_codec.encode_lineage_request(query))
        assert pulls_codec.decode_lineage_response(answer) == expected


async def test_a_drain_says_how_many_sessions_are_left_and_is_described(node):
    rig, stub = node
    await rig.write(prompt(3), session="s")
    assert (await stub.Drain(pb2.DrainRequest())).sessions == 1
    assert (await stub.Describe(pb2.DescribeRequest())).is_draining
    assert (await stub.Drain(pb2.DrainRequest(is_cancelled=True))).sessions == 1
    assert not (await stub.Describe(pb2.DescribeRequest())).is_draining


async def test_bytes_that_are_no_message_are_refused_as_bad_input():
    async with open_node({Tier.DRAM: MemoryStore()}) as rig, _channel_to(rig) as channel:
        call = channel.stream_unary(WRITE_METHOD)(iter([b"no message"]))
        with pytest.raises(aio.AioRpcError) as told:
            await call
    assert told.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert decode_reason(told.value.trailing_metadata()) == "BAD_REQUEST"
