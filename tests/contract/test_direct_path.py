"""The DirectPath contract, held against a node with a real Redis and real files, over a channel."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from grpc import aio

from cachenode.server import RunningNode, running
from cachenode.settings import CacheNodeSettings
from hearthkv.codec import direct_path as codec
from hearthkv.codec.status import decode_reason
from hearthkv.core.block_frame import BlockFrame, check_block, encode_frame
from hearthkv.core.block_io import BlockChunk, BlockHeader, ReadEnd, WriteStart, WriteStatus
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.checksum import block_checksum
from hearthkv.core.clock import SystemClock
from hearthkv.core.direct_path import (
    Attached,
    Attachment,
    FileAddress,
    Located,
    LocateQuery,
    RedisAddress,
    Reservation,
    ReservedCopy,
    ReserveQuery,
)
from hearthkv.core.kv_cache_settings import KvCacheSettings
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier
from hearthkv.datapath.redis_names import RedisNames, epoch_value
from hearthkv.v1 import block_pb2, direct_path_pb2, direct_path_pb2_grpc
from tests.redis_process import RedisProcess

SPEC = NamespaceSpec(b"n" * 16, 16, 1024)
KEYS = [bytes([number]) * 16 for number in range(1, 6)]
SESSION = SessionId("s-1")
STORED = WriteStatus.STORED
NAMES = RedisNames(NodeId("node-a"))
TTL_MS = "30000"


def read(path: str) -> bytes:
    return Path(path).read_bytes()


def payload_of(key: bytes) -> bytes:
    return key * (SPEC.block_bytes // len(key))


class Caller:
    """A client on the node's host that speaks the contract, and Redis, and nothing else."""

    def __init__(self, channel: aio.Channel, redis: RedisProcess) -> None:
        self.stub = direct_path_pb2_grpc.DirectPathStub(channel)
        self.redis = redis
        self.proof = b""

    async def attach(self) -> Attachment:
        """Go both steps, and keep the proof."""
        told = await self._attach(b"")
        assert told.attachment is None
        self.proof = read(told.proof_path)
        opened = (await self._attach(self.proof)).attachment
        assert opened is not None
        return opened

    async def locate(self, keys: Sequence[bytes]) -> Located:
        query = LocateQuery(self.proof, SPEC.namespace_id, PackedKeys.join(keys), 0, SESSION)
        response = await self.stub.Locate(codec.encode_locate_request(query))
        return codec.decode_locate_response(response, query, SPEC.block_bytes)

    async def reserve(self, keys: Sequence[bytes], parent_key: bytes = b"") -> Reservation:
        checksums = tuple(block_checksum(SPEC.namespace_id, key, payload_of(key)) for key in keys)
        query = ReserveQuery(
            self.proof, WriteStart(SPEC, SESSION), PackedKeys.join(keys), parent_key, checksums
        )
        response = await self.stub.Reserve(codec.encode_reserve_request(query))
        return codec.decode_reserve_response(response)

    def fill(self, keys: Sequence[bytes], reservation: Reservation) -> None:
        """Write the copies for which room was kept."""
        before = b""
        for key, outcome in zip(keys, reservation.outcomes, strict=True):
            if isinstance(outcome, ReservedCopy):
                checksum = block_checksum(SPEC.namespace_id, key, payload_of(key))
                frame = BlockFrame(SPEC, key, before, checksum, outcome.sequence)
                name = NAMES.reserved(SPEC.namespace_id, key, outcome.sequence)
                value = encode_frame(frame) + payload_of(key)
                assert self.redis.command("SET", name, value, "PX", TTL_MS) == b"+OK\r\n"
            before = key

    async def commit(self, reservation_id: str) -> list[WriteStatus]:
        request = codec.encode_commit_request(self.proof, reservation_id)
        return codec.decode_commit_response(await self.stub.Commit(request))

    async def abort(self, reservation_id: str) -> None:
        await self.stub.Abort(codec.encode_abort_request(self.proof, reservation_id))

    async def write(self, keys: Sequence[bytes]) -> list[WriteStatus]:
        reservation = await self.reserve(keys)
        self.fill(keys, reservation)
        return await self.commit(reservation.reservation_id)

    async def _attach(self, proof: bytes) -> Attached:
        response = await self.stub.Attach(codec.encode_attach_request(proof))
        return codec.decode_attach_response(response)


@pytest.fixture
def settings(tmp_path: Path, redis_server: RedisProcess) -> CacheNodeSettings:
    return CacheNodeSettings(
        node_id="node-a",
        listen="127.0.0.1:0",
        metrics_port=-1,
        redis_urls=[redis_server.url],
        ssd_dir=str(tmp_path / "ssd"),
        drain_s=0,
    )


@pytest.fixture
async def node(settings: CacheNodeSettings) -> AsyncIterator[RunningNode]:
    async with running(settings, KvCacheSettings(cache_capacity_gb=0.5), SystemClock()) as started:
        yield started


@pytest.fixture
async def caller(node: RunningNode, redis_server: RedisProcess) -> AsyncIterator[Caller]:
    async with aio.insecure_channel(node.address) as channel:
        yield Caller(channel, redis_server)


async def test_who_reads_the_proof_is_told_where_the_stores_are(
    caller: Caller, node: RunningNode, settings: CacheNodeSettings
):
    opened = await caller.attach()
    assert opened == Attachment(
        node_id=NodeId("node-a"),
        epoch=node.node.identity.epoch,
        redis_urls=tuple(settings.redis_urls),
        ssd_dir=settings.ssd_dir,
        is_direct_io=False,
    )
    assert epoch_value(opened.epoch) in caller.redis.command("GET", NAMES.epoch)


@pytest.mark.parametrize("proof", [b"", b"x" * 32], ids=["none", "another"])
async def test_no_call_passes_without_the_proof(caller: Caller, proof: bytes):
    calls = [
        lambda: caller.locate(KEYS),
        lambda: caller.reserve(KEYS),
        lambda: caller.commit("r"),
        lambda: caller.abort("r"),
    ]
    if proof:
        calls.append(lambda: caller._attach(proof))
    caller.proof = proof
    for call in calls:
        with pytest.raises(aio.AioRpcError) as refused:
            await call()
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert decode_reason(refused.value.trailing_metadata()) == "STALE_PROOF"
    assert caller.redis.command("DBSIZE") == b":1\r\n"  # the epoch


async def test_the_proof_of_another_start_is_stale(
    caller: Caller, settings: CacheNodeSettings, tmp_path: Path, redis_server: RedisProcess
):
    await caller.attach()
    later = replace(settings, node_id="node-b", ssd_dir=str(tmp_path / "other"))
    async with (
        running(later, KvCacheSettings(cache_capacity_gb=0.5), SystemClock()) as other,
        aio.insecure_channel(other.address) as channel,
    ):
        stranger = Caller(channel, redis_server)
        stranger.proof = caller.proof
        with pytest.raises(aio.AioRpcError, match="proof of 32 bytes is not that of this start"):
            await stranger.locate(KEYS)


async def test_what_was_written_directly_is_located_byte_for_byte(caller: Caller):
    await caller.attach()
    assert await caller.write(KEYS) == [STORED] * 5
    located = await caller.locate(KEYS)
    assert located.end is ReadEnd.COMPLETE
    assert [block.ref.key for block in located.blocks] == KEYS
    for block in located.blocks:
        assert block.address == RedisAddress(0)
        reply = caller.redis.command("GET", NAMES.block_of(block.ref))
        stored = reply.partition(b"\r\n")[2].removesuffix(b"\r\n")
        assert check_block(stored, block.ref) == payload_of(block.ref.key)


async def test_a_committed_copy_has_no_time_to_live(caller: Caller):
    await caller.attach()
    await caller.write(KEYS[:1])
    (block,) = (await caller.locate(KEYS[:1])).blocks
    assert caller.redis.command("PTTL", NAMES.block_of(block.ref)) == b":-1\r\n"


async def test_blocks_on_the_ssd_are_located_in_their_files(
    caller: Caller, node: RunningNode, settings: CacheNodeSettings
):
    opened = await caller.attach()
    node.node.catalog.set_full(Tier.DRAM, "for this test")
    await node_writes(node, KEYS)
    located = await caller.locate(KEYS)
    assert [block.ref.key for block in located.blocks] == KEYS
    for block in located.blocks:
        assert isinstance(block.address, FileAddress)
        whole = (Path(opened.ssd_dir) / block.address.name).read_bytes()
        start = block.address.offset
        assert whole[start : start + SPEC.block_bytes] == payload_of(block.ref.key)


async def test_what_is_held_is_not_reserved_again(caller: Caller):
    await caller.attach()
    await caller.write(KEYS[:2])
    reservation = await caller.reserve(KEYS[:3])
    assert reservation.outcomes[:2] == (WriteStatus.ALREADY_HELD,) * 2
    assert isinstance(reservation.outcomes[2], ReservedCopy)
    assert reservation.ttl_s == 30


async def test_a_copy_that_is_not_there_is_not_held(caller: Caller):
    await caller.attach()
    reservation = await caller.reserve(KEYS[:3])
    one = Reservation(reservation.reservation_id, reservation.outcomes[:1], reservation.ttl_s)
    caller.fill(KEYS[:1], one)
    assert await caller.commit(reservation.reservation_id) == [
        STORED,
        WriteStatus.UNAVAILABLE,
        WriteStatus.UNAVAILABLE,
    ]
    assert len((await caller.locate(KEYS)).blocks) == 1


async def test_a_reservation_is_committed_once(caller: Caller):
    await caller.attach()
    reservation = await caller.reserve(KEYS)
    caller.fill(KEYS, reservation)
    await caller.commit(reservation.reservation_id)
    with pytest.raises(aio.AioRpcError) as refused:
        await caller.commit(reservation.reservation_id)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    assert decode_reason(refused.value.trailing_metadata()) == "RESERVATION_OVER"


async def test_what_was_given_up_leaves_nothing(caller: Caller):
    await caller.attach()
    reservation = await caller.reserve(KEYS)
    caller.fill(KEYS, reservation)
    await caller.abort(reservation.reservation_id)
    await caller.abort(reservation.reservation_id)
    assert caller.redis.command("DBSIZE") == b":1\r\n"  # the epoch
    assert (await caller.locate(KEYS)).blocks == ()


async def test_bad_input_is_refused_with_its_figures(caller: Caller):
    await caller.attach()
    request = direct_path_pb2.LocateRequest(
        proof=caller.proof,
        namespace_id=b"n" * 16,
        keys=block_pb2.PackedKeys(keys=b"k" * 17, key_width=16),
    )
    with pytest.raises(aio.AioRpcError, match="keys are 17 bytes, must be a multiple") as refused:
        await caller.stub.Locate(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_namespace_keeps_its_sizes(caller: Caller):
    await caller.attach()
    await caller.write(KEYS[:1])
    query = ReserveQuery(
        caller.proof,
        WriteStart(NamespaceSpec(SPEC.namespace_id, 16, 8), None),
        PackedKeys.join(KEYS[:1]),
        b"",
        (0,),
    )
    with pytest.raises(aio.AioRpcError, match="block_bytes is 8") as refused:
        await caller.stub.Reserve(codec.encode_reserve_request(query))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_node_without_the_direct_path_does_not_know_it(
    settings: CacheNodeSettings, redis_server: RedisProcess
):
    off = replace(settings, direct_path=False)
    async with (
        running(off, KvCacheSettings(cache_capacity_gb=0.5), SystemClock()) as started,
        aio.insecure_channel(started.address) as channel,
    ):
        with pytest.raises(aio.AioRpcError) as refused:
            await Caller(channel, redis_server).attach()
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_clean_end_takes_the_proof_with_it(settings: CacheNodeSettings):
    kv_cache = KvCacheSettings(cache_capacity_gb=0.5)
    async with running(settings, kv_cache, SystemClock()):
        assert (Path(settings.ssd_dir) / "host-proof" / "proof").exists()
    assert not (Path(settings.ssd_dir) / "host-proof").exists()


async def node_writes(node: RunningNode, keys: Sequence[bytes]) -> None:
    """Write through the node."""

    async def chunks() -> AsyncIterator[BlockChunk]:
        before = b""
        for key in keys:
            checksum = block_checksum(SPEC.namespace_id, key, payload_of(key))
            yield BlockChunk(BlockHeader(key, before, SPEC.block_bytes, checksum), payload_of(key))
            before = key

    assert await node.node.write(WriteStart(SPEC, None), chunks()) == [STORED] * len(keys)
