"""
Tests of `hearthkv.datapath.redis_server`, over real servers and over one that lies.

Every test runs with an event loop and without: what holds for one must hold for the other.
"""

import asyncio
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hearthkv.core.block_frame import BlockFrame, encode_frame
from hearthkv.core.checksum import block_checksum
from hearthkv.core.clock import SystemClock
from hearthkv.core.errors import (
    BlockLostError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier
from hearthkv.datapath.redis_blocks import NamedRead, NamedWrite
from hearthkv.datapath.redis_place import RedisPlace, parse_place
from hearthkv.datapath.redis_server import BlockingRedisServer, RedisServer
from tests.conftest import StartRedis
from tests.redis_process import RedisProcess
from tests.scripted_redis import ScriptedRedis

SIZES = [1, 5000, 300_000, 3_000_000]


class BlockingCalls:
    """A blocking server, called as the other one is."""

    def __init__(self, place: RedisPlace, deadline_s: float) -> None:
        self._server = BlockingRedisServer(place, SystemClock(), deadline_s=deadline_s)

    async def get(self, reads: Sequence[NamedRead]) -> list[StoreError | None]:
        return await asyncio.to_thread(self._server.get, reads)

    async def put(self, writes: Sequence[NamedWrite]) -> list[StoreError | None]:
        return await asyncio.to_thread(self._server.put, writes)

    async def call(self, words: Sequence[bytes]) -> bytes | None:
        return await asyncio.to_thread(self._server.call, words)

    def close(self) -> None:
        self._server.close()


Server = RedisServer | BlockingCalls
Open = Callable[..., Server]


@pytest.fixture(params=["loop", "blocking"])
async def open_server(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    opened: list[Server] = []

    def open_server(place: RedisPlace | str, deadline_s: float = 20) -> Server:
        place = parse_place(place) if isinstance(place, str) else place
        server: Server
        if request.param == "loop":
            server = RedisServer(place, deadline_s=deadline_s)
        else:
            server = BlockingCalls(place, deadline_s)
        opened.append(server)
        return server

    yield open_server
    for server in opened:
        server.close()
    await asyncio.sleep(0)  # a loop's connections end in its next round


def block(number: int, size: int = 40) -> tuple[BlockFrame, bytes]:
    spec = NamespaceSpec(b"n" * 16, 16, size)
    key = number.to_bytes(16, "big")
    payload = (bytes(range(number % 200, 250)) * (size // 50 + 1))[:size]
    return BlockFrame(spec, key, b"", block_checksum(b"n" * 16, key, payload), number), payload


def name_of(frame: BlockFrame) -> bytes:
    return b"name:%d" % frame.sequence


def read_of(frame: BlockFrame) -> NamedRead:
    into = memoryview(bytearray(frame.spec.block_bytes))
    return NamedRead(name_of(frame), frame.ref(Tier.DRAM), into)


def write_of(frame: BlockFrame, payload: bytes, ttl_ms: int | None = None) -> NamedWrite:
    return NamedWrite(name_of(frame), frame, payload, ttl_ms)


# Real servers


async def carries_blocks(server: Server) -> None:
    """Blocks of all sizes, more than the window holds, come back as they went."""
    blocks = [block(number, SIZES[number % len(SIZES)]) for number in range(40)]
    assert await server.put([write_of(*one) for one in blocks]) == [None] * 40
    reads = [read_of(frame) for frame, _ in blocks]
    assert await server.get(reads) == [None] * 40
    assert all(read.into == payload for read, (_, payload) in zip(reads, blocks, strict=True))


async def test_blocks_come_back_as_they_went(open_server: Open, redis_server: RedisProcess):
    await carries_blocks(open_server(redis_server.url))


async def test_an_empty_batch_is_no_work(open_server: Open, redis_server: RedisProcess):
    server = open_server(redis_server.url)
    assert await server.get([]) == []
    assert await server.put([]) == []


async def test_blocks_go_over_tcp_to_a_user_that_has_a_password(
    open_server: Open, start_redis: StartRedis
):
    port = free_port()
    start_redis(
        *("--port", str(port), "--bind", "127.0.0.1"),
        *("--user", "node", "on", ">s3cr@t", "~*", "&*", "+@all"),
        *("--user", "default", "off"),
    )
    await carries_blocks(open_server(f"redis://node:s3cr%40t@127.0.0.1:{port}/2"))
    for url in ("redis://node:wr0ng@127.0.0.1", "redis://127.0.0.1"):
        refused = open_server(url.replace("127.0.0.1", f"127.0.0.1:{port}"))
        (outcome,) = await refused.get([read_of(block(1)[0])])
        assert isinstance(outcome, StoreUnavailableError)
        assert "wr0ng" not in str(outcome)


async def test_blocks_go_over_tls(open_server: Open, tls_redis: tuple[int, Path]):
    port, authority = tls_redis
    await carries_blocks(open_server(f"rediss://localhost:{port}?ssl_ca_certs={authority}"))


async def test_a_certificate_that_nobody_trusts_is_refused(
    open_server: Open, tls_redis: tuple[int, Path]
):
    (outcome,) = await open_server(f"rediss://localhost:{tls_redis[0]}").get([read_of(block(1)[0])])
    assert isinstance(outcome, StoreUnavailableError)
    assert "certificate" in str(outcome).lower()


@pytest.fixture(scope="session")
def tls_redis(
    start_redis: StartRedis, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, Path]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    port = free_port()
    options = ("--tls-port", str(port), "--bind", "127.0.0.1", "--tls-auth-clients", "no")
    files = ("--tls-cert-file", str(certificate), "--tls-key-file", str(key))
    try:
        start_redis(*options, *files, "--tls-ca-cert-file", str(certificate))
    except AssertionError as error:
        if "tls" in str(error).lower():
            pytest.skip(f"this Redis server was built without TLS: {error}")
        raise
    return port, certificate


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_a_block_that_is_not_there_is_lost(open_server: Open, redis_server: RedisProcess):
    server = open_server(redis_server.url)
    (held, payload), (missing, _) = block(1), block(2)
    await server.put([write_of(held, payload)])
    outcomes = await server.get([read_of(held), read_of(missing), read_of(held)])
    assert [type(outcome) for outcome in outcomes] == [type(None), BlockLostError, type(None)]


async def test_a_value_of_another_size_is_no_block(open_server: Open, redis_server: RedisProcess):
    server = open_server(redis_server.url)
    (small, payload), (held, its_payload) = block(1, 40), block(2)
    await server.put([write_of(small, payload), write_of(held, its_payload)])
    large = NamedRead(name_of(small), small.ref(Tier.DRAM), memoryview(bytearray(5000)))
    outcomes = await server.get([large, read_of(held)])
    assert isinstance(outcomes[0], BlockLostError)
    assert "value is 232 bytes, must be 5192" in str(outcomes[0])
    assert outcomes[1] is None


async def test_a_block_under_anothers_name_is_lost(open_server: Open, redis_server: RedisProcess):
    server = open_server(redis_server.url)
    (one, payload), (other, _) = block(1), block(2)
    await server.put([NamedWrite(name_of(other), one, payload)])
    (outcome,) = await server.get([read_of(other)])
    assert isinstance(outcome, BlockLostError)
    assert "must be of" in str(outcome)


async def test_a_block_may_be_given_a_time_to_live(open_server: Open, redis_server: RedisProcess):
    server = open_server(redis_server.url)
    (frame, payload) = block(1)
    assert await server.put([write_of(frame, payload, ttl_ms=60_000)]) == [None]
    assert await server.call((b"PTTL", name_of(frame))) > b"0"


async def test_a_small_command_has_its_reply(open_server: Open, redis_server: RedisProcess):
    server = open_server(redis_server.url)
    assert await server.call((b"SET", b"k", b"v")) == b"OK"
    assert await server.call((b"GET", b"k")) == b"v"
    assert await server.call((b"GET", b"other")) is None
    with pytest.raises(StoreUnavailableError, match=r"redis\.sock: ERR unknown command"):
        await server.call((b"NONSENSE",))
    assert await server.call((b"PING",)) == b"PONG"


async def test_a_full_server_is_full_and_not_away(open_server: Open, start_redis: StartRedis):
    server = open_server(start_redis("--maxmemory", "1").url)
    outcomes = await server.put([write_of(*block(number, 3000)) for number in range(3)])
    assert [type(outcome) for outcome in outcomes] == [StoreFullError] * 3


async def test_a_server_that_was_started_anew_is_found(open_server: Open, start_redis: StartRedis):
    process = start_redis()
    server = open_server(process.url)
    frame, payload = block(1)
    assert await server.put([write_of(frame, payload)]) == [None]
    process.kill()
    outcomes = await server.get([read_of(frame)] * 200)
    assert {type(outcome) for outcome in outcomes} == {StoreUnavailableError}
    with pytest.raises(StoreUnavailableError):
        await server.call((b"PING",))
    process.start()
    assert await server.put([write_of(frame, payload)]) == [None]
    assert await server.get([read_of(frame)]) == [None]


async def test_a_frozen_server_is_away_after_the_deadline(
    open_server: Open, start_redis: StartRedis
):
    process = start_redis()
    server = open_server(process.url, deadline_s=0.1)
    frame, payload = block(1, 3_000_000)
    assert await server.put([write_of(frame, payload)]) == [None]
    process.freeze()
    for calls in (server.get([read_of(frame)] * 9), server.put([write_of(frame, payload)] * 9)):
        outcomes = await calls
        assert len(outcomes) == 9
        for outcome in outcomes:
            assert isinstance(outcome, StoreUnavailableError)
            assert "did not answer within 0.1 s" in str(outcome)
    process.thaw()
    while await server.get([read_of(frame)]) != [None]:
        pass  # it has to go through what it was sent
    assert await server.put([write_of(frame, payload)]) == [None]


# A server that lies


FAULTY = [block(1), block(2), block(3)]
STREAM = b"".join(
    b"$232\r\n" + encode_frame(frame) + payload + b"\r\n" for frame, payload in FAULTY
)


@pytest.fixture
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedRedis]:
    with ScriptedRedis(tmp_path_factory.mktemp("r")) as server:
        yield server


async def check_reads(open_server: Open, scripted: ScriptedRedis, reply: bytes) -> int:
    """Read three blocks from a server that says `reply`; return how many were right."""
    scripted.reply = reply
    server = open_server(RedisPlace(path=scripted.path))
    reads = [read_of(frame) for frame, _ in FAULTY]
    outcomes = await server.get(reads)
    for read, outcome, (_, payload) in zip(reads, outcomes, FAULTY, strict=True):
        assert outcome is not None or read.into == payload
        assert outcome is None or "did not answer" not in str(outcome)
        assert outcome is None or isinstance(outcome, BlockLostError | StoreUnavailableError)
    server.close()
    return outcomes.count(None)


async def test_replies_that_are_cut_at_any_byte_are_never_blocks(
    open_server: Open, scripted: ScriptedRedis
):
    one = len(STREAM) // 3
    for end in range(len(STREAM) + 1):
        assert await check_reads(open_server, scripted, STREAM[:end]) == end // one


async def test_replies_with_any_byte_flipped_are_never_wrong_blocks(
    open_server: Open, scripted: ScriptedRedis
):
    for at in range(len(STREAM)):
        damaged = bytearray(STREAM)
        damaged[at] ^= 1 << at % 8
        assert await check_reads(open_server, scripted, bytes(damaged)) < 3


@pytest.mark.parametrize("flip", [0x01, 0x04, 0x80])
async def test_writes_count_only_where_the_server_says_so_in_so_many_words(
    open_server: Open, scripted: ScriptedRedis, flip: int
):
    good = b"+OK\r\n" * 3
    replies = [good[:end] for end in range(len(good))]
    replies += [good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :] for at in range(len(good))]
    for reply in [*replies, b":1\r\n$-1\r\n$2\r\nOK\r\n"]:
        scripted.reply = reply
        server = open_server(RedisPlace(path=scripted.path))
        outcomes = await server.put([write_of(*one) for one in FAULTY])
        for outcome in outcomes:
            assert outcome is None or isinstance(outcome, StoreUnavailableError)
            assert "did not answer" not in str(outcome)
        assert outcomes.count(None) <= reply.count(b"OK\r\n")
        assert outcomes.count(None) < 3
        server.close()


async def test_a_server_that_says_nothing_is_away_after_the_deadline(
    open_server: Open, scripted: ScriptedRedis
):
    scripted.is_silent = True
    scripted.reply = STREAM[:-50]
    server = open_server(RedisPlace(path=scripted.path), deadline_s=0.1)
    outcomes = await server.get([read_of(frame) for frame, _ in FAULTY])
    assert [outcome is None for outcome in outcomes] == [True, True, False]
    assert "did not answer within 0.1 s" in str(outcomes[2])
    server.close()
    await asyncio.sleep(0)


async def test_nobody_listens(open_server: Open, tmp_path: Path):
    server = open_server(RedisPlace(path=str(tmp_path / "s")))
    (outcome,) = await server.put([write_of(*block(1))])
    assert isinstance(outcome, StoreUnavailableError)
    assert "No such file" in str(outcome)
