"""Tests of `hearthkv.datapath.resp_blocking`."""

from collections.abc import Iterator

import pytest

from hearthkv.core.clock import ManualClock, SystemClock
from hearthkv.core.errors import RespError, StoreUnavailableError
from hearthkv.datapath.redis_place import RedisPlace
from hearthkv.datapath.resp_blocking import BlockingResp
from hearthkv.datapath.resp_wire import Request, get_request, set_request
from tests.conftest import StartRedis
from tests.redis_process import RedisProcess
from tests.scripted_redis import ScriptedRedis

SIZE = 1_000_000


def place_of(process: RedisProcess) -> RedisPlace:
    return RedisPlace(path=str(process.socket_path))


@pytest.fixture
def connection(redis_server: RedisProcess) -> Iterator[BlockingResp]:
    connection = BlockingResp(place_of(redis_server), SystemClock())
    yield connection
    connection.close()


def run(connection: BlockingResp, *requests: Request, deadline_s: float = 20) -> list[int]:
    settled: list[int] = []
    connection.run(requests, lambda index, _: settled.append(index), deadline_s=deadline_s)
    return settled


def get(size: int) -> Request:
    return get_request(b"k", head_bytes=4, payload=memoryview(bytearray(size - 4)))


def test_each_request_is_settled_in_its_turn(connection: BlockingResp):
    requests = [set_request(b"k", (bytes(SIZE),)), *(get(SIZE) for _ in range(20))]
    assert run(connection, *requests) == list(range(21))
    assert [request.reply for request in requests] == [b"OK", *[bytes(4)] * 20]
    assert run(connection) == []


def test_one_connection_is_kept(connection: BlockingResp, redis_server: RedisProcess):
    for _ in range(3):
        run(connection, Request((b"PING",)))
    assert redis_server.command("CLIENT", "LIST").count(b" fd=") == 2


def test_a_deadline_that_is_over_before_the_call_is_kept(redis_server: RedisProcess):
    connection = BlockingResp(place_of(redis_server), ManualClock())
    with pytest.raises(TimeoutError):
        run(connection, Request((b"PING",)), deadline_s=0)


@pytest.mark.parametrize(
    "request_of",
    [lambda: get(SIZE), lambda: set_request(b"k", (bytes(64 << 20),))],
    ids=["read", "write"],
)
def test_a_frozen_server_ends_the_call_and_the_connection(start_redis: StartRedis, request_of):
    process = start_redis()
    connection = BlockingResp(place_of(process), SystemClock())
    run(connection, Request((b"PING",)))
    process.freeze()
    with pytest.raises(TimeoutError):
        run(connection, request_of(), deadline_s=0.05)
    process.thaw()
    ping = Request((b"PING",))
    assert run(connection, ping) == [0]
    assert ping.reply == b"PONG"
    connection.close()


def test_a_refused_login_is_told(redis_server: RedisProcess):
    place = RedisPlace(path=str(redis_server.socket_path), username="who", password="what")
    with pytest.raises(RespError, match="WRONGPASS"):
        run(BlockingResp(place, SystemClock()), Request((b"PING",)))


@pytest.mark.parametrize(
    ("reply", "text"),
    [(b"+OK\r\n", "the connection was lost"), (b"HTTP/1.1\r\n", "does not speak RESP")],
)
def test_what_was_settled_before_the_end_stays_settled(
    tmp_path_factory: pytest.TempPathFactory, reply: bytes, text: str
):
    with ScriptedRedis(tmp_path_factory.mktemp("r")) as scripted:
        scripted.reply = b"+OK\r\n" + reply
        connection = BlockingResp(RedisPlace(path=scripted.path), SystemClock())
        settled: list[int] = []
        requests = [Request((b"PING",)) for _ in range(3)]
        with pytest.raises(StoreUnavailableError, match=text):
            connection.run(requests, lambda index, _: settled.append(index), deadline_s=20)
        assert requests[0].reply == b"OK"
        assert settled[0] == 0
        connection.close()
