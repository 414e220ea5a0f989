"""Tests of `hearthkv.datapath.resp_connection`: what happens when a caller gives up."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from hearthkv.core.errors import RespError, StoreUnavailableError
from hearthkv.datapath.redis_place import RedisPlace
from hearthkv.datapath.resp_connection import RespConnection, login_words, tls_context
from hearthkv.datapath.resp_wire import Request, get_request, set_request
from tests.conftest import StartRedis
from tests.redis_process import RedisProcess
from tests.scripted_redis import ScriptedRedis

SIZE = 2_000_000


@pytest.fixture
async def connection(redis_server: RedisProcess) -> AsyncIterator[RespConnection]:
    connection = await RespConnection.open(RedisPlace(path=str(redis_server.socket_path)))
    await carried(connection, set_request(b"k", (bytes(SIZE),)))
    yield connection
    connection.close()
    await asyncio.sleep(0)


@pytest.fixture
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedRedis]:
    with ScriptedRedis(tmp_path_factory.mktemp("r")) as server:
        yield server


def get(memory: bytearray) -> Request:
    return get_request(b"k", head_bytes=4, payload=memoryview(memory)[4:])


def start(connection: RespConnection, request: Request) -> asyncio.Event:
    finished = asyncio.Event()
    connection.start([(request, lambda _: finished.set())])
    return finished


async def carried(connection: RespConnection, request: Request) -> Request:
    await start(connection, request).wait()
    return request


async def test_requests_may_be_outstanding_together(connection: RespConnection):
    memories = [bytearray(b"x" * SIZE) for _ in range(4)]
    requests = [get(memory) for memory in memories]
    ends = [start(connection, request) for request in requests]
    assert connection.size_bytes == 4 * SIZE
    for end in ends:
        await end.wait()
    assert [request.reply for request in requests] == [bytes(4)] * 4
    assert all(memory[4:] == bytes(SIZE - 4) for memory in memories)
    assert (connection.size_bytes, connection.is_usable) == (0, True)


async def test_an_error_of_the_server_leaves_the_connection_usable(connection: RespConnection):
    with pytest.raises(RespError, match="unknown command"):
        await connection.call((b"NONSENSE",))
    assert connection.is_usable
    assert await connection.call((b"PING",)) == b"PONG"


async def test_what_is_given_up_is_left_alone_and_its_neighbours_are_served(
    connection: RespConnection,
):
    given_up, wanted = bytearray(b"x" * SIZE), bytearray(b"x" * SIZE)
    first, second = get(given_up), get(wanted)
    start(connection, first)
    end = start(connection, second)
    connection.withdraw(first)
    assert not connection.is_usable  # for others
    await end.wait()
    assert given_up == b"x" * SIZE
    assert wanted[4:] == bytes(SIZE - 4)
    assert connection._transport is not None
    assert connection._transport.is_closing()


async def test_the_connection_ends_when_nobody_waits_any_more(connection: RespConnection):
    memory = bytearray(SIZE)
    request = get(memory)
    start(connection, request)
    connection.withdraw(request)
    connection.withdraw(request)
    assert not connection.is_usable
    del request
    memory.clear()  # which can't be done while a view of it is held
    with pytest.raises(StoreUnavailableError, match="is lost"):
        await connection.call((b"PING",))


async def test_a_value_that_is_half_sent_can_be_given_up_only_with_the_connection(
    start_redis: StartRedis,
):
    process = start_redis()
    connection = await RespConnection.open(RedisPlace(path=str(process.socket_path)))
    process.freeze()
    neighbour, half_sent = get(bytearray(SIZE)), set_request(b"k", (bytes(16 << 20),))
    end = start(connection, neighbour)
    start(connection, half_sent)
    connection.withdraw(half_sent)
    await end.wait()
    assert isinstance(neighbour.reply, StoreUnavailableError)
    process.thaw()
    process.command("PING")
    assert process.command("EXISTS", "k") == b":0\r\n"


async def test_a_call_that_is_cancelled_ends_the_connection(connection: RespConnection):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await connection.call((b"BLPOP", b"nothing", b"0"))
    assert not connection.is_usable


async def test_a_server_that_answers_too_early_gets_no_more(scripted: ScriptedRedis):
    scripted.reply = b"-ERR too long\r\n"
    scripted.is_silent = True
    connection = await RespConnection.open(RedisPlace(path=scripted.path))
    request = set_request(b"k", (bytes(64 << 20),))
    await carried(connection, request)
    assert not connection.is_usable
    connection.close()
    await asyncio.sleep(0)


async def test_bytes_that_nobody_asked_for_end_the_connection(scripted: ScriptedRedis):
    scripted.reply = b"+OK\r\n+OK\r\n"
    scripted.is_silent = True
    connection = await RespConnection.open(RedisPlace(path=scripted.path))
    assert await connection.call((b"PING",)) == b"OK"
    assert not connection.is_usable
    await asyncio.sleep(0)


async def test_a_refused_login_closes_the_connection(redis_server: RedisProcess):
    place = RedisPlace(path=str(redis_server.socket_path), username="who", password="what")
    with pytest.raises(RespError, match="WRONGPASS"):
        await RespConnection.open(place)
    await asyncio.sleep(0)


class FakeTlsTransport(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__({"sslcontext": object()})
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def abort(self) -> None:
        self.written += b"aborted"


def test_nothing_is_written_while_tls_is_busy():
    transport = FakeTlsTransport()
    connection = RespConnection()
    connection.connection_made(transport)
    connection.pause_writing()
    request = Request((b"PING",))
    connection.start([(request, lambda _: None)])
    assert transport.written == b""
    connection.resume_writing()
    assert transport.written == b"*1\r\n$4\r\nPING\r\n"
    connection.close()
    assert transport.written.endswith(b"aborted")
    assert isinstance(request.reply, StoreUnavailableError)


def test_a_session_opens_with_user_and_database():
    assert login_words(RedisPlace(host="h")) == []
    assert login_words(RedisPlace(host="h", password="p")) == [(b"AUTH", b"p")]
    assert login_words(RedisPlace(host="h", username="u", password="p", database=3)) == [
        (b"AUTH", b"u", b"p"),
        (b"SELECT", b"3"),
    ]


def test_only_tls_has_a_context():
    assert tls_context(RedisPlace(host="h")) is None
    context = tls_context(RedisPlace(host="h", is_tls=True))
    assert context is not None
    assert context.check_hostname
    with pytest.raises(OSError, match="No such file"):
        tls_context(RedisPlace(host="h", is_tls=True, ca_file="/nowhere"))
