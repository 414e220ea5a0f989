"""The CacheNode contract, held against a node with a real Redis, over a channel."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import grpc
import pytest
from grpc import aio

from cachenode.server import RunningNode, running
from cachenode.settings import CacheNodeSettings
from hearthkv.codec import cache_node as codec
from hearthkv.codec.block import chunks_of
from hearthkv.core.block_io import (
    BlockChunk,
    BlockHeader,
    DropBlocks,
    DropNamespace,
    DropSession,
    KeysQuery,
    MatchQuery,
    PinQuery,
    ReadEnd,
    ReadQuery,
    WriteStart,
    WriteStatus,
)
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.checksum import block_checksum
from hearthkv.core.clock import SystemClock
from hearthkv.core.kv_cache_settings import KvCacheSettings
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import EndedTurn, TurnEnd
from hearthkv.v1 import block_pb2, cache_node_pb2, cache_node_pb2_grpc
from tests.redis_process import RedisProcess

SPEC = NamespaceSpec(b"n" * 16, 16, 3 * 1024 * 1024 // 2)  # two chunks a block
KEYS = [bytes([number]) * 16 for number in range(1, 6)]
SESSION = SessionId("s-1")


def payload_of(key: bytes, spec: NamespaceSpec = SPEC) -> bytes:
    return key * (spec.block_bytes // len(key))


def header_of(key: bytes, parent_key: bytes, spec: NamespaceSpec = SPEC) -> BlockHeader:
    checksum = block_checksum(spec.namespace_id, key, payload_of(key, spec))
    return BlockHeader(key, parent_key, spec.block_bytes, checksum)


class Caller:
    """A client that speaks the contract and nothing else."""

    def __init__(self, channel: aio.Channel) -> None:
        self.stub = cache_node_pb2_grpc.CacheNodeStub(channel)

    async def send(self, *steps: WriteStart | BlockChunk) -> list[WriteStatus]:
        requests = [
            codec.encode_write_step(step if isinstance(step, WriteStart) else (step,))
            for step in steps
        ]
        return codec.decode_write_response(await self.stub.Write(iter(requests)))

    async def write(
        self, keys: Sequence[bytes], parent_key: bytes = b"", spec: NamespaceSpec = SPEC
    ) -> list[WriteStatus]:
        steps: list[WriteStart | BlockChunk] = [WriteStart(spec, SESSION)]
        for key in keys:
            steps += chunks_of(header_of(key, parent_key, spec), payload_of(key, spec))
            parent_key = key
        return await self.send(*steps)

    async def read(
        self, keys: Sequence[bytes], namespace_id: bytes = SPEC.namespace_id
    ) -> tuple[list[tuple[bytes, bytes]], ReadEnd]:
        """The blocks that came, as (key, payload), and why the stream ended."""
        query = ReadQuery(namespace_id, PackedKeys.join(keys), 0, SESSION)
        blocks: list[tuple[bytes, bytes]] = []
        async for message in self.stub.Read(codec.encode_read_request(query)):
            step = codec.decode_read_step(message)
            if isinstance(step, ReadEnd):
                return blocks, step
            (chunk,) = step
            if chunk.header is not None:
                blocks.append((chunk.header.key, b""))
            key, data = blocks[-1]
            blocks[-1] = (key, data + chunk.data)
        raise AssertionError("the stream has no end")

    async def match(self, keys: Sequence[bytes]) -> int:
        query = MatchQuery(SPEC.namespace_id, PackedKeys.join(keys))
        response = await self.stub.Match(codec.encode_match_request(query))
        return codec.decode_match_response(response).by_tier.total


@pytest.fixture
async def node(tmp_path: Path, redis_server: RedisProcess) -> AsyncIterator[RunningNode]:
    settings = CacheNodeSettings(
        node_id="node-a",
        listen="127.0.0.1:0",
        metrics_port=-1,
        redis_urls=[redis_server.url],
        ssd_dir=str(tmp_path / "ssd"),
        drain_s=0,
    )
    kv_cache = KvCacheSettings(cache_capacity_gb=0.5)
    async with running(settings, kv_cache, SystemClock()) as running_node:
        yield running_node


@pytest.fixture
async def caller(node: RunningNode) -> AsyncIterator[Caller]:
    async with aio.insecure_channel(node.address) as channel:
        yield Caller(channel)


async def test_what_was_written_is_read_byte_for_byte(caller: Caller):
    assert await caller.write(KEYS) == [WriteStatus.STORED] * 5
    blocks, end = await caller.read(KEYS)
    assert end is ReadEnd.COMPLETE
    assert blocks == [(key, payload_of(key)) for key in KEYS]


async def test_a_second_write_finds_the_blocks_held(caller: Caller):
    await caller.write(KEYS[:3])
    assert await caller.write(KEYS) == [WriteStatus.ALREADY_HELD] * 3 + [WriteStatus.STORED] * 2


async def test_a_read_may_begin_behind_what_the_engine_holds(caller: Caller):
    await caller.write(KEYS)
    blocks, end = await caller.read(KEYS[2:])
    assert end is ReadEnd.COMPLETE
    assert [key for key, _ in blocks] == KEYS[2:]


async def test_a_read_ends_where_the_run_ends(caller: Caller):
    await caller.write(KEYS[:2])
    blocks, end = await caller.read(KEYS)
    assert end is ReadEnd.MISS
    assert [key for key, _ in blocks] == KEYS[:2]
    assert await caller.match(KEYS) == 2


async def test_an_unknown_namespace_is_a_miss(caller: Caller):
    assert await caller.read(KEYS, b"u" * 16) == ([], ReadEnd.MISS)


async def test_no_keys_are_read_completely(caller: Caller):
    assert await caller.read([]) == ([], ReadEnd.COMPLETE)


@pytest.mark.parametrize(
    ("keys", "width", "text"),
    [
        pytest.param(b"", 0, "key_width is 0, must be in 1..32", id="no-width"),
        pytest.param(b"k" * 33, 33, "key_width is 33, must be in 1..32", id="wide"),
        pytest.param(b"k" * 17, 16, "keys are 17 bytes, must be a multiple", id="uneven"),
    ],
)
async def test_impossible_keys_are_refused_with_their_figures(
    caller: Caller, keys: bytes, width: int, text: str
):
    request = cache_node_pb2.ReadRequest(
        namespace_id=b"n" * 16, keys=block_pb2.PackedKeys(keys=keys, key_width=width)
    )
    with pytest.raises(aio.AioRpcError, match=text) as refused:
        await anext(aiter(caller.stub.Read(request)))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_block_of_another_size_is_refused_and_not_stored(caller: Caller):
    header = BlockHeader(KEYS[0], b"", 8, 0)
    with pytest.raises(aio.AioRpcError) as refused:
        await caller.send(WriteStart(SPEC, None), BlockChunk(header, b"12345678"))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "8 bytes" in str(refused.value.details())
    assert str(SPEC.block_bytes) in str(refused.value.details())
    assert await caller.match(KEYS) == 0


async def test_a_namespace_keeps_its_sizes(caller: Caller):
    await caller.write(KEYS[:1])
    other = NamespaceSpec(SPEC.namespace_id, 16, 1024)
    with pytest.raises(aio.AioRpcError) as refused:
        await caller.write(KEYS[:1], spec=other)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "1024" in str(refused.value.details())


async def test_a_write_without_its_parent_is_refused_alone(caller: Caller):
    steps: list[WriteStart | BlockChunk] = [WriteStart(SPEC, None)]
    steps += chunks_of(header_of(KEYS[1], KEYS[0]), payload_of(KEYS[1]))
    steps += chunks_of(header_of(KEYS[2], b""), payload_of(KEYS[2]))
    assert await caller.send(*steps) == [WriteStatus.PARENT_MISSING, WriteStatus.STORED]


async def test_a_damaged_block_is_refused_with_what_hangs_on_it(caller: Caller):
    steps: list[WriteStart | BlockChunk] = [WriteStart(SPEC, None)]
    steps += chunks_of(header_of(KEYS[0], b""), payload_of(KEYS[0])[:-1] + b"?")
    steps += chunks_of(header_of(KEYS[1], KEYS[0]), payload_of(KEYS[1]))
    steps += chunks_of(header_of(KEYS[2], b""), payload_of(KEYS[2]))
    assert await caller.send(*steps) == [
        WriteStatus.CORRUPT,
        WriteStatus.PARENT_MISSING,
        WriteStatus.STORED,
    ]


@pytest.mark.parametrize("start", [True, False], ids=["second-start", "no-start"])
async def test_a_write_has_one_start(caller: Caller, start: bool):
    first = WriteStart(SPEC, None) if start else next(iter(_chunks()))
    with pytest.raises(aio.AioRpcError, match="start") as refused:
        await caller.send(first, WriteStart(SPEC, None))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def _chunks() -> list[BlockChunk]:
    return list(chunks_of(header_of(KEYS[0], b""), payload_of(KEYS[0])))


async def test_an_error_carries_a_stable_reason(caller: Caller):
    with pytest.raises(aio.AioRpcError) as refused:
        await caller.stub.Match(cache_node_pb2.MatchRequest(namespace_id=b"short"))
    details = dict(refused.value.trailing_metadata() or ())["grpc-status-details-bin"]
    assert b"BAD_NAMESPACE" in bytes(details)


@pytest.mark.parametrize(
    ("target", "dropped"),
    [
        pytest.param(DropBlocks(SPEC.namespace_id, PackedKeys.join(KEYS[1:2])), 4, id="blocks"),
        pytest.param(DropSession(SESSION), 5, id="session"),
        pytest.param(DropNamespace(SPEC.namespace_id), 5, id="namespace"),
    ],
)
async def test_what_is_dropped_is_gone(
    caller: Caller, target: DropBlocks | DropSession | DropNamespace, dropped: int
):
    await caller.write(KEYS)
    response = await caller.stub.Drop(codec.encode_drop_request(target))
    assert response.dropped_blocks == dropped
    assert await caller.match(KEYS) == 5 - dropped


async def test_a_pin_holds_until_it_is_ended(caller: Caller):
    await caller.write(KEYS)
    query = PinQuery(SPEC.namespace_id, PackedKeys.join(KEYS), 60)
    pinned = codec.decode_pin_response(await caller.stub.Pin(codec.encode_pin_request(query)))
    assert pinned.blocks == 5
    description = codec.decode_describe_response(
        await caller.stub.Describe(cache_node_pb2.DescribeRequest())
    )
    assert description.pins == 1
    unpin = cache_node_pb2.UnpinRequest(pin_id=pinned.pin_id)
    assert (await caller.stub.Unpin(unpin)).unpinned_blocks == 5
    assert (await caller.stub.Unpin(unpin)).unpinned_blocks == 0


async def test_a_prefix_in_dram_needs_no_prefetch(caller: Caller):
    await caller.write(KEYS)
    query = KeysQuery(SPEC.namespace_id, PackedKeys.join(KEYS))
    response = await caller.stub.Prefetch(codec.encode_prefetch_request(query))
    assert response.queued_blocks == 0


@pytest.mark.parametrize("end", TurnEnd, ids=lambda end: end.value)
async def test_a_turn_may_end_in_any_way_also_of_an_unknown_session(caller: Caller, end: TurnEnd):
    await caller.write(KEYS)
    for session in (SESSION, SessionId("never seen")):
        request = codec.encode_end_turn_request(EndedTurn(session, end, returns_in_s=1.5))
        assert (await caller.stub.EndTurn(request)).queued_blocks == 0
    assert await caller.match(KEYS) == 5


async def test_the_turn_of_no_session_can_not_end(caller: Caller):
    with pytest.raises(aio.AioRpcError) as refused:
        await caller.stub.EndTurn(cache_node_pb2.EndTurnRequest())
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_node_describes_itself(node: RunningNode, caller: Caller):
    await caller.write(KEYS)
    description = codec.decode_describe_response(
        await caller.stub.Describe(cache_node_pb2.DescribeRequest())
    )
    assert description.node_id == "node-a"
    assert description.epoch == node.node.identity.epoch
    (usage,) = description.namespaces
    assert (usage.spec, usage.blocks) == (SPEC, 5)
    dram, ssd = description.tiers
    assert (dram.tier, dram.blocks, dram.used_bytes) == (
        Tier.DRAM,
        5,
        5 * (SPEC.block_bytes + 192),
    )
    assert (ssd.tier, ssd.blocks, ssd.trouble) == (Tier.SSD, 0, "")
