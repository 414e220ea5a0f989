"""What every `BlockStore` promises, held against each implementation."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cachenode.dram_store import DramStore
from cachenode.ssd_store import SsdStore
from cachenode.store import BlockStore
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.checksum import block_checksum
from hearthkv.core.errors import BlockLostError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from tests.conftest import StartRedis
from tests.memory_store import MemoryStore
from tests.redis_process import RedisProcess
from tests.slab_rig import slab_files
from tests.store_calls import get_one, put_one

SPEC = NamespaceSpec(b"n" * 16, 16, 5000)
OTHER_SPEC = NamespaceSpec(b"N" * 32, 16, 5000)


@dataclass
class Held:
    """A store under test, and how to open what it holds a second time."""

    store: BlockStore
    reopen: Callable[[], BlockStore]


def dram_store(*urls: str) -> DramStore:
    return DramStore(urls, node_id=NodeId("node-a"), epoch=7, deadline_s=5)


@pytest.fixture(scope="session")
def second_redis(start_redis: StartRedis) -> RedisProcess:
    return start_redis()


@pytest.fixture(params=["memory", "redis", "two-redis", "ssd", "ssd-direct"])
async def held(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    redis_server: RedisProcess,
    second_redis: RedisProcess,
) -> AsyncIterator[Held]:
    second_redis.command("FLUSHALL")
    memory = MemoryStore()
    opened: list[BlockStore] = []

    def open_store() -> BlockStore:
        store: BlockStore
        if request.param == "memory":
            store = memory
        elif request.param == "redis":
            store = dram_store(redis_server.url)
        elif request.param == "two-redis":
            store = dram_store(redis_server.url, second_redis.url)
        else:
            store = SsdStore(
                slab_files(tmp_path, is_direct=request.param == "ssd-direct"), deadline_s=5
            )
        opened.append(store)
        return store

    yield Held(open_store(), open_store)
    for store in opened:
        await store.close()


@pytest.fixture
def store(held: Held) -> BlockStore:
    return held.store


def block(
    number: int, *, spec: NamespaceSpec = SPEC, sequence: int | None = None
) -> tuple[BlockFrame, bytes]:
    """A block that no other number has, with its payload."""
    key = number.to_bytes(2, "big") * 8
    parent_key = (number - 1).to_bytes(2, "big") * 8 if number else b""
    payload = bytes((number + i) % 251 for i in range(spec.block_bytes))
    checksum = block_checksum(spec.namespace_id, key, payload)
    frame = BlockFrame(
        spec, key, parent_key, checksum, 1000 + number if sequence is None else sequence
    )
    return frame, payload


def ref_of(store: BlockStore, frame: BlockFrame) -> BlockRef:
    return frame.ref(store.tier)


async def all_frames(store: BlockStore) -> list[BlockFrame]:
    return [frame async for part in store.scan() for frame in part.frames]


async def test_what_was_put_is_got(store: BlockStore):
    frame, payload = block(1)
    await put_one(store, frame, payload)
    assert await get_one(store, ref_of(store, frame)) == payload


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_any_buffer_can_be_put(store: BlockStore, kind: Callable[[bytes], bytes]):
    frame, payload = block(1)
    await put_one(store, frame, kind(payload))
    assert await get_one(store, ref_of(store, frame)) == payload


async def test_a_block_that_was_never_put_is_lost(store: BlockStore):
    frame, _ = block(1)
    with pytest.raises(BlockLostError):
        await get_one(store, ref_of(store, frame))


async def test_equal_keys_of_two_namespaces_are_two_blocks(store: BlockStore):
    ours, our_payload = block(1)
    theirs, _ = block(1, spec=OTHER_SPEC)
    await put_one(store, ours, our_payload)
    with pytest.raises(BlockLostError):
        await get_one(store, ref_of(store, theirs))
    await store.erase([ref_of(store, theirs)])
    assert await get_one(store, ref_of(store, ours)) == our_payload


async def test_a_late_erase_of_an_old_copy_spares_the_new_one(store: BlockStore):
    old, payload = block(1, sequence=1)
    new, _ = block(1, sequence=2**64 - 1)
    await put_one(store, old, payload)
    await put_one(store, new, payload)
    await store.erase([ref_of(store, old)])
    assert await all_frames(store) == [new]
    assert await get_one(store, ref_of(store, new)) == payload


async def test_a_payload_that_fails_its_checksum_is_lost(store: BlockStore):
    frame, payload = block(1)
    await put_one(store, frame, payload[:-1] + b"\xff")
    with pytest.raises(BlockLostError, match="payload has checksum"):
        await get_one(store, ref_of(store, frame))


async def test_an_erased_block_is_lost(store: BlockStore):
    frames = []
    for number in range(3):
        frame, payload = block(number)
        await put_one(store, frame, payload)
        frames.append(frame)
    await store.erase([ref_of(store, frame) for frame in frames[:2]])
    assert await all_frames(store) == frames[2:]
    with pytest.raises(BlockLostError):
        await get_one(store, ref_of(store, frames[0]))


async def test_erasing_what_is_not_there_is_no_error(store: BlockStore):
    frame, _ = block(1)
    await store.erase([ref_of(store, frame)])
    await store.erase([])


async def test_a_scan_gives_every_block_once(held: Held):
    frames = [block(number)[0] for number in range(50)]
    frames += [block(number, spec=OTHER_SPEC)[0] for number in range(5)]
    for frame in frames:
        number = int.from_bytes(frame.key[:2], "big")
        await put_one(held.store, frame, block(number, spec=frame.spec)[1])
    found = await all_frames(held.reopen())
    assert sorted(found, key=repr) == sorted(frames, key=repr)


async def test_a_scan_of_an_empty_store_gives_nothing(store: BlockStore):
    assert await all_frames(store) == []


async def test_a_store_is_the_same_from_its_second_look_on(store: BlockStore):
    looks = [await store.check() for _ in range(3)]
    assert [look.is_same for look in looks] == [False, True, True]
    assert [look.trouble for look in looks] == ["", "", ""]


def test_the_tiers_are_told(store: BlockStore):
    assert store.tier in {Tier.DRAM, Tier.SSD}
