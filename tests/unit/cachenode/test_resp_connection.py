"""Tests of `cachenode.resp_connection`, against a server that says what a test wants."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cachenode.resp_connection import RedisPlace, RespConnection, RespError
from hearthkv.core.errors import StoreUnavailableError
from tests.redis_process import RedisProcess


class ScriptedServer:
    """Answers every command with the next of its replies, in pieces; None closes the line."""

    def __init__(self, *replies: bytes | None, piece_bytes: int = 1 << 20) -> None:
        self.replies = list(replies)
        self.piece_bytes = piece_bytes
        self.heard = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for reply in self.replies:
            self.heard += await reader.read(1 << 20)
            if reply is None:
                break
            for at in range(0, len(reply), self.piece_bytes):
                writer.write(reply[at : at + self.piece_bytes])
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()


@asynccontextmanager
async def connected(server: ScriptedServer, folder: Path) -> AsyncIterator[RespConnection]:
    path = str(folder / "s")
    async with await asyncio.start_unix_server(server.serve, path):
        connection = await RespConnection.open(RedisPlace(path=path))
        yield connection
        connection.close()
        await asyncio.sleep(0)


async def test_a_value_comes_back_as_it_went(redis_server: RedisProcess):
    connection = await RespConnection.open(RedisPlace(path=str(redis_server.socket_path)))
    value = bytes(range(256)) * 16384
    for size in (0, 1, 1000, 1024, 1025, len(value)):
        assert await connection.call((b"SET", b"name", value[:size])) == b"OK"
        assert await connection.call((b"GET", b"name")) == value[:size]
    assert await connection.call((b"GET", b"other")) is None
    assert await connection.call((b"DEL", b"name")) == b"1"
    connection.close()


async def test_a_word_of_several_buffers_is_one_word(redis_server: RedisProcess):
    connection = await RespConnection.open(RedisPlace(path=str(redis_server.socket_path)))
    parts = (b"head", bytes(5000), bytearray(b"tail"))
    assert await connection.call((b"SET", b"name", parts)) == b"OK"
    assert await connection.call((b"GET", b"name")) == b"".join(parts)
    connection.close()


async def test_a_database_can_be_chosen(redis_server: RedisProcess):
    place = RedisPlace(path=str(redis_server.socket_path), database=3)
    connection = await RespConnection.open(place)
    await connection.call((b"SET", b"name", b"x"))
    connection.close()
    assert redis_server.command("EXISTS", "name") == b":0\r\n"


async def test_a_password_that_is_wrong_is_refused(redis_server: RedisProcess):
    place = RedisPlace(path=str(redis_server.socket_path), username="who", password="what")
    with pytest.raises(RespError, match="WRONGPASS"):
        await RespConnection.open(place)
    assert "what" not in repr(place)


async def test_a_server_that_is_not_there_is_an_os_error(tmp_path: Path):
    with pytest.raises(OSError, match="No such file"):
        await RespConnection.open(RedisPlace(path=str(tmp_path / "s")))


@pytest.mark.parametrize("piece_bytes", [1, 3, 7, 1000])
async def test_replies_may_come_in_any_pieces(tmp_path: Path, piece_bytes: int):
    server = ScriptedServer(
        b"+OK\r\n",
        b"$5\r\n\r\n:-$\r\n",
        b"$-1\r\n",
        b"$0\r\n\r\n",
        b":12\r\n",
        piece_bytes=piece_bytes,
    )
    async with connected(server, tmp_path) as connection:
        replies = [await connection.call((b"X",)) for _ in range(5)]
    assert replies == [b"OK", b"\r\n:-$", None, b"", b"12"]
    assert server.heard == b"*1\r\n$1\r\nX\r\n" * 5


async def test_an_error_of_the_server_leaves_the_connection_usable(tmp_path: Path):
    server = ScriptedServer(b"-OOM not allowed\r\n", b"+OK\r\n")
    async with connected(server, tmp_path) as connection:
        with pytest.raises(RespError, match="OOM not allowed"):
            await connection.call((b"SET", b"k", b"v"))
        assert connection.is_usable
        assert await connection.call((b"PING",)) == b"OK"


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        pytest.param(None, "the connection was lost", id="closed"),
        pytest.param(b"$5\r\n123", "the connection was lost", id="half-a-value"),
        pytest.param(b"$many\r\n", r"a value is said to have b'many' bytes", id="no-length"),
        pytest.param(b"$999999999999\r\n", "a value is said to have", id="too-long"),
        pytest.param(b"$1\r\n12345", "a value is said to have", id="more-than-said"),
        pytest.param(b"+OK\r\n+OK\r\n", "bytes behind a reply", id="two-replies"),
        pytest.param(b"*1\r\n", r"a reply begins with b'\*'", id="a-list"),
        pytest.param(b"HTTP/1.1 400\r\n", "a reply begins with b'H'", id="no-redis"),
        pytest.param(b"+" + b"x" * 2000, "a line has over 1024 bytes", id="endless-line"),
    ],
)
async def test_nonsense_ends_the_connection(tmp_path: Path, reply: bytes | None, text: str):
    async with connected(ScriptedServer(reply), tmp_path) as connection:
        with pytest.raises(StoreUnavailableError, match=text):
            await connection.call((b"GET", b"k"))
        assert not connection.is_usable
        with pytest.raises(StoreUnavailableError, match="is lost"):
            await connection.call((b"GET", b"k"))


async def test_a_call_that_is_given_up_ends_the_connection(redis_server: RedisProcess):
    connection = await RespConnection.open(RedisPlace(path=str(redis_server.socket_path)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await connection.call((b"BLPOP", b"nothing", b"0"))
    assert not connection.is_usable


async def test_a_server_that_does_not_read_is_not_written_to_without_end(start_redis):
    server = start_redis()
    connection = await RespConnection.open(RedisPlace(path=str(server.socket_path)))
    server.freeze()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await connection.call((b"SET", b"k", bytes(64 << 20)))
    server.thaw()
    assert not connection.is_usable
