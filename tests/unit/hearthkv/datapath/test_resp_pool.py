"""Tests of `hearthkv.datapath.resp_pool`: turns, windows, and callers who give up."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearthkv.core.errors import RespError, StoreUnavailableError
from hearthkv.datapath import window
from hearthkv.datapath.redis_place import RedisPlace
from hearthkv.datapath.resp_pool import CONNECTIONS_MAX, RespPool
from hearthkv.datapath.resp_wire import Request, get_request, set_request
from tests.conftest import StartRedis
from tests.redis_process import RedisProcess
from tests.scripted_redis import ScriptedRedis

SIZE = 1_000_000


def place_of(process: RedisProcess) -> RedisPlace:
    return RedisPlace(path=str(process.socket_path))


@pytest.fixture
async def pool(redis_server: RedisProcess) -> AsyncIterator[RespPool]:
    pool = RespPool(place_of(redis_server))
    await pool.run([set_request(b"k", (bytes(SIZE),))], lambda *_: None)
    yield pool
    pool.close()
    await asyncio.sleep(0)


def gets(count: int) -> list[Request]:
    return [
        get_request(b"k", head_bytes=4, payload=memoryview(bytearray(b"x" * (SIZE - 4))))
        for _ in range(count)
    ]


def clients_of(process: RedisProcess) -> int:
    return process.command("CLIENT", "LIST").count(b" fd=") - 1


async def test_each_request_is_settled_once(pool: RespPool):
    settled: list[int] = []
    requests = gets(20)
    await pool.run(requests, lambda index, _: settled.append(index))
    assert sorted(settled) == list(range(20))
    assert [request.reply for request in requests] == [bytes(4)] * 20
    await pool.run([], lambda index, _: settled.append(index))
    assert len(settled) == 20


async def test_the_window_bounds_what_is_under_way(pool: RespPool):
    most = 0

    def look(*_: object) -> None:
        nonlocal most
        most = max(most, pool._window.bytes)

    await asyncio.gather(pool.run(gets(20), look), pool.run(gets(20), look))
    assert SIZE < most <= window.BYTES_MAX
    assert (pool._window.bytes, pool._window.requests) == (0, 0)


async def test_two_calls_take_turns(pool: RespPool):
    order: list[str] = []
    await asyncio.gather(
        pool.run(gets(30), lambda *_: order.append("large")),
        pool.run(gets(3), lambda *_: order.append("small")),
    )
    assert order.index("small") < 10
    assert order[-10:] == ["large"] * 10


async def test_there_are_no_more_connections_than_there_may_be(
    pool: RespPool, redis_server: RedisProcess
):
    await asyncio.gather(*(pool.run(gets(3), lambda *_: None) for _ in range(10)))
    assert clients_of(redis_server) == CONNECTIONS_MAX


async def test_a_call_that_is_cancelled_is_settled_no_more_and_others_go_on(pool: RespPool):
    settled: list[int] = []
    are_some_settled = asyncio.Event()

    def settle(index: int, _: Request) -> None:
        settled.append(index)
        if len(settled) == 5:
            are_some_settled.set()

    requests = gets(50)
    cancelled = asyncio.create_task(pool.run(requests, settle))
    other = asyncio.create_task(pool.run(others := gets(20), lambda *_: None))
    await are_some_settled.wait()
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    count = len(settled)
    before = [bytes(request.payload or b"") for request in requests]
    await other
    assert [request.reply for request in others] == [bytes(4)] * 20
    assert [bytes(request.payload or b"") for request in requests] == before
    assert len(settled) == count < 50
    assert (pool._window.bytes, pool._window.requests) == (0, 0)
    await pool.run(last := gets(5), lambda *_: None)
    assert [request.reply for request in last] == [bytes(4)] * 5


async def test_what_waits_goes_by_another_connection_when_one_is_lost(
    pool: RespPool, redis_server: RedisProcess
):
    requests = gets(30)

    def cut(index: int, _: Request) -> None:
        if index == 10:
            redis_server.command("CLIENT", "KILL", "TYPE", "normal")

    await pool.run(requests, cut)
    replies = [request.reply for request in requests]
    assert replies[:5] == replies[-5:] == [bytes(4)] * 5
    lost = [reply for reply in replies if isinstance(reply, StoreUnavailableError)]
    # What was under way, and what went to the other connection before its end was known.
    assert len(lost) <= 8


async def test_a_server_that_hangs_up_on_everything_is_given_up(
    tmp_path_factory: pytest.TempPathFactory,
):
    with ScriptedRedis(tmp_path_factory.mktemp("r")) as scripted:
        pool = RespPool(RedisPlace(path=scripted.path))
        requests = gets(200)
        settled: list[int] = []
        with pytest.raises(StoreUnavailableError, match="connection is lost"):
            await pool.run(requests, lambda index, _: settled.append(index))
        assert 0 < len(settled) < 200
        assert scripted.connections <= 10
        pool.close()
        await asyncio.sleep(0)


async def test_nobody_listens(tmp_path: Path):
    pool = RespPool(RedisPlace(path=str(tmp_path / "s")))
    for _ in range(2):
        with pytest.raises(OSError, match="No such file"):
            await pool.run(gets(1), lambda *_: None)


async def test_a_refused_login_is_told(redis_server: RedisProcess):
    pool = RespPool(RedisPlace(path=str(redis_server.socket_path), password="wrong"))
    with pytest.raises(RespError):
        await pool.run(gets(1), lambda *_: None)
    await asyncio.sleep(0)


async def test_a_server_with_one_connection_to_spare_is_used(start_redis: StartRedis):
    process = start_redis("--maxclients", "1")
    pool = RespPool(place_of(process))
    requests = [set_request(b"k", (b"v",)) for _ in range(5)]
    await pool.run(requests, lambda *_: None)
    assert b"OK" in {request.reply for request in requests}
    pool.close()
    await asyncio.sleep(0)


async def test_a_closed_pool_fails_what_is_under_way(pool: RespPool):
    requests = gets(1)
    running = asyncio.create_task(pool.run(requests, lambda *_: None))
    await asyncio.sleep(0)
    pool.close()
    await running
    assert isinstance(requests[0].reply, StoreUnavailableError)


async def closed_for(process: RedisProcess) -> None:
    """Wait until the server has no client left."""
    for _ in range(100_000):
        if clients_of(process) == 0:
            return
        await asyncio.sleep(0)
    raise AssertionError("clients are left")


async def test_calls_that_all_find_no_connection_lose_none(start_redis: StartRedis):
    """Each opens what is missing, while others put the list of what is there in order."""
    process = start_redis()
    pool = RespPool(place_of(process))
    requests = [[set_request(b"k", (b"v",))] for _ in range(20)]
    await asyncio.gather(*(pool.run(each, lambda *_: None) for each in requests))
    assert clients_of(process) <= CONNECTIONS_MAX
    pool.close()
    await closed_for(process)


async def test_a_pool_that_is_closed_while_it_opens_keeps_nothing(start_redis: StartRedis):
    process = start_redis()
    pool = RespPool(place_of(process))
    running = asyncio.create_task(pool.run([set_request(b"k", (b"v",))], lambda *_: None))
    await asyncio.sleep(0)
    pool.close()
    with pytest.raises(StoreUnavailableError):
        await running
    await closed_for(process)
    with pytest.raises(StoreUnavailableError, match="pool of connections is closed"):
        await pool.run([set_request(b"k", (b"v",))], lambda *_: None)
