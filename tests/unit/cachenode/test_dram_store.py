"""Tests of `cachenode.dram_store` beyond the contract: what is Redis' own."""

import pytest

from cachenode.dram_store import DramStore
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.checksum import block_checksum
from hearthkv.core.direct_path import RedisAddress
from hearthkv.core.errors import BlockLostError, SettingsError, StoreFullError
from hearthkv.core.errors import StoreUnavailableError as Unavailable
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from hearthkv.datapath.redis_blocks import NamedWrite
from hearthkv.datapath.redis_names import RedisNames
from hearthkv.datapath.redis_server import RedisServer
from tests.conftest import StartRedis
from tests.redis_process import RedisProcess
from tests.store_calls import get_one, put_one

SPEC = NamespaceSpec(b"n" * 16, 16, 100)
PAYLOAD = bytes(100)


def frame(number: int) -> BlockFrame:
    key = number.to_bytes(16, "big")
    return BlockFrame(SPEC, key, b"", block_checksum(SPEC.namespace_id, key, PAYLOAD), number)


def store_on(*urls: str, node: str = "a", epoch: int = 1, deadline_s: float = 5) -> DramStore:
    return DramStore(urls, node_id=NodeId(node), epoch=epoch, deadline_s=deadline_s)


async def frames_in(store: DramStore) -> set[int]:
    return {frame.sequence async for part in store.scan() for frame in part.frames}


@pytest.mark.parametrize("url", ["redis://:pa/secret@host:1", "http://:secret@host", "secret"])
def test_a_bad_url_is_refused_without_its_password(url: str):
    with pytest.raises(SettingsError, match="redis_urls: Redis URL") as refused:
        store_on(url)
    assert "secret" not in str(refused.value)


def test_a_store_without_servers_is_refused():
    with pytest.raises(SettingsError, match="redis_urls is empty"):
        store_on()


async def test_two_nodes_share_a_server_and_see_only_their_own(redis_server: RedisProcess):
    ours, theirs = store_on(redis_server.url), store_on(redis_server.url, node="b")
    await put_one(ours, frame(1), PAYLOAD)
    await put_one(theirs, frame(2), PAYLOAD)
    assert await frames_in(ours) == {1}
    assert await frames_in(theirs) == {2}
    await ours.close()
    await theirs.close()


async def test_blocks_spread_over_servers_and_are_found_on_theirs(
    redis_server: RedisProcess, start_redis: StartRedis
):
    other = start_redis()
    both = store_on(redis_server.url, other.url)
    for number in range(40):
        await put_one(both, frame(number), PAYLOAD)
    first = store_on(redis_server.url)
    on_first = await frames_in(first)
    assert 5 < len(on_first) < 35
    # The one server is the place of all blocks for this store, so it keeps what it finds; for
    # both, what lies on the wrong one would never be looked for.
    for number in range(100, 120):
        await put_one(first, frame(number), PAYLOAD)
    found = await frames_in(both)
    assert set(range(40)) < found < {*range(40), *range(100, 120)}
    assert await frames_in(first) < found
    await both.close()
    await first.close()


async def test_a_value_that_is_no_block_is_removed_by_a_scan(redis_server: RedisProcess):
    store = store_on(redis_server.url)
    await put_one(store, frame(1), PAYLOAD)
    redis_server.command("SET", "hearthkv:a:block:junk", "junk")
    redis_server.command("LPUSH", "hearthkv:a:block:list", "junk")
    redis_server.command("SET", "somebody", "else's")
    parts = [part async for part in store.scan()]
    assert sum(part.removed for part in parts) == 2
    assert redis_server.command("DBSIZE") == b":2\r\n"
    await store.close()


async def test_an_emptied_server_is_not_the_same(redis_server: RedisProcess):
    store = store_on(redis_server.url)
    assert [(await store.check()).is_same for _ in range(2)] == [False, True]
    redis_server.command("FLUSHALL")
    assert [(await store.check()).is_same for _ in range(2)] == [False, True]
    await store.close()


async def test_a_restarted_server_is_not_the_same(start_redis: StartRedis):
    server = start_redis()
    store = store_on(server.url)
    await store.check()
    server.kill()
    look = await store.check()
    assert (look.is_same, bool(look.trouble)) == (False, True)
    server.start()
    look = await store.check()
    assert (look.is_same, look.trouble) == (False, "")
    await store.close()


async def test_a_server_that_another_start_took_over_is_not_the_same(redis_server: RedisProcess):
    ours, theirs = store_on(redis_server.url), store_on(redis_server.url, epoch=2)
    await ours.check()
    await theirs.check()
    look = await ours.check()
    assert (look.is_same, "another node of this id" in look.advice) == (False, True)
    await ours.close()
    await theirs.close()


async def test_a_server_that_was_emptied_is_no_sign_of_another_node(redis_server: RedisProcess):
    store = store_on(redis_server.url)
    await store.check()
    redis_server.command("FLUSHALL")
    look = await store.check()
    assert (look.is_same, look.advice) == (False, "")
    await store.close()


async def test_a_server_that_evicts_by_itself_is_advised_against(start_redis: StartRedis):
    server = start_redis("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    store = store_on(server.url)
    look = await store.check()
    assert (look.trouble, "noeviction" in look.advice) == ("", True)
    assert (await store.check()).advice == ""  # said once
    await store.close()


async def test_a_full_server_is_full_and_not_away(start_redis: StartRedis):
    server = start_redis("--maxmemory", "1")
    store = store_on(server.url)
    with pytest.raises(StoreFullError, match="is full"):
        await put_one(store, frame(1), PAYLOAD)
    await store.close()


async def test_a_frozen_server_is_away_after_the_deadline(start_redis: StartRedis):
    server = start_redis()
    store = store_on(server.url, deadline_s=0.05)
    server.freeze()
    with pytest.raises(Unavailable, match=r"redis.sock"):
        await get_one(store, frame(1).ref(Tier.DRAM))
    server.thaw()
    await store.close()


async def test_a_password_opens_a_server_and_shows_in_no_error(start_redis: StartRedis):
    server = start_redis("--requirepass", "s3cret")
    path = str(server.socket_path)
    good, bad = store_on(f"unix://:s3cret@{path}"), store_on(f"unix://:wr0ng@{path}")
    await put_one(good, frame(1), PAYLOAD)
    with pytest.raises(Unavailable) as refused:
        await put_one(bad, frame(1), PAYLOAD)
    assert "wr0ng" not in str(refused.value)
    assert "wr0ng" not in (await bad.check()).trouble
    await good.close()
    await bad.close()


async def test_a_value_of_another_kind_is_no_block(redis_server: RedisProcess):
    store = store_on(redis_server.url)
    with pytest.raises(BlockLostError, match="no value"):
        await get_one(store, frame(1).ref(Tier.DRAM))
    await store.close()


async def test_a_copy_of_a_client_counts_when_it_is_confirmed(
    redis_server: RedisProcess, start_redis: StartRedis
):
    store = store_on(redis_server.url, start_redis().url)
    frames = [frame(number) for number in range(20)]
    refs = [one.ref(Tier.DRAM) for one in frames]
    await write_as_client(store, frames)
    assert await frames_in(store) == set()
    assert await store.confirm(refs) == [None] * 20
    assert await store.confirm(refs) == [None] * 20  # where the first answer was lost
    assert await frames_in(store) == set(range(20))
    for ref in refs:
        assert await get_one(store, ref) == PAYLOAD
    assert await store.get([]) == []
    await store.close()


async def test_a_confirmed_copy_has_no_time_to_live(redis_server: RedisProcess):
    store = store_on(redis_server.url)
    names, ref = RedisNames(NodeId("a")), frame(1).ref(Tier.DRAM)
    await write_as_client(store, [frame(1)])
    assert redis_server.command("PTTL", names.reserved_of(ref)) > b":0"
    await store.confirm([ref])
    assert redis_server.command("PTTL", names.block_of(ref)) == b":-1\r\n"
    await store.close()


async def test_what_a_client_did_not_write_whole_is_not_confirmed(redis_server: RedisProcess):
    store = store_on(redis_server.url)
    names, refs = RedisNames(NodeId("a")), [frame(number).ref(Tier.DRAM) for number in range(3)]
    redis_server.command("SET", names.reserved_of(refs[0]), "short")
    redis_server.command("LPUSH", names.reserved_of(refs[1]), "x" * 292)
    outcomes = await store.confirm(refs)
    assert [type(outcome) for outcome in outcomes] == [BlockLostError] * 3
    assert [str(outcome).partition(" has ")[2] for outcome in outcomes] == [
        "5 bytes of a block, must have 292",
        "0 bytes of a block, must have 292",
        "0 bytes of a block, must have 292",
    ]
    assert await frames_in(store) == set()
    await store.close()


async def test_what_is_given_up_is_forgotten(redis_server: RedisProcess):
    store = store_on(redis_server.url)
    refs = [frame(number).ref(Tier.DRAM) for number in range(2)]
    await write_as_client(store, [frame(1)])
    await store.discard(refs)
    assert redis_server.command("DBSIZE") == b":0\r\n"
    await store.close()


async def test_nothing_is_confirmed_by_a_server_that_is_away(start_redis: StartRedis):
    server = start_redis()
    store = store_on(server.url)
    server.kill()
    (outcome,) = await store.confirm([frame(1).ref(Tier.DRAM)])
    assert isinstance(outcome, Unavailable)
    with pytest.raises(Unavailable):
        await store.discard([frame(1).ref(Tier.DRAM)])
    await store.close()


async def write_as_client(store: DramStore, frames: list[BlockFrame]) -> None:
    """Write copies as a process does that knows the servers and the node's id."""
    names = RedisNames(NodeId("a"))
    for one in frames:
        ref = one.ref(Tier.DRAM)
        (address,) = store.locate([ref])
        assert isinstance(address, RedisAddress)
        server = RedisServer(store.servers[address.server], deadline_s=5)
        written = NamedWrite(names.reserved_of(ref), one, PAYLOAD, ttl_ms=60_000)
        assert await server.put([written]) == [None]
        server.close()
