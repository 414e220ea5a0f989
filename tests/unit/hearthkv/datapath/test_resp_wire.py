"""Tests of `hearthkv.datapath.resp_wire`."""

import itertools
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.errors import FrameError, HearthKVError, RespError, StoreUnavailableError
from hearthkv.datapath.resp_wire import (
    SHORT_BYTES_MAX,
    Reply,
    ReplyReader,
    Request,
    framed,
    get_request,
    set_request,
)

HEAD = b"head"
LOST = StoreUnavailableError("lost")


def get(size: int) -> Request:
    return get_request(b"k", head_bytes=len(HEAD), payload=memoryview(bytearray(size)))


def call() -> Request:
    return Request((b"X",))


def value(payload: bytes) -> bytes:
    return b"$%d\r\n%b%b\r\n" % (len(HEAD) + len(payload), HEAD, payload)


def payload_of(request: Request) -> bytes:
    assert request.payload is not None
    return bytes(request.payload)


def feed(reader: ReplyReader, stream: bytes, sizes: Iterable[int]) -> list[Request]:
    """Let a reader read a stream in pieces of at most these sizes; stop where it breaks."""
    finished = []
    left = memoryview(stream)
    for size in sizes:
        if not left or reader.trouble is not None:
            break
        view = reader.buffer()
        assert len(view) >= 1
        count = min(size, len(view), len(left))
        view[:count] = left[:count]
        left = left[count:]
        finished += reader.advance(count)
    return finished


def read(stream: bytes, *requests: Request, sizes: Iterable[int] | None = None) -> ReplyReader:
    reader = ReplyReader()
    for request in requests:
        reader.expect(request)
    finished = feed(reader, stream, itertools.repeat(1 << 20) if sizes is None else sizes)
    assert finished == list(requests[: len(finished)])
    assert reader.outstanding == len(requests) - len(finished)
    return reader


# Requests


def test_a_command_is_framed():
    assert framed((b"SET", b"k", b"")) == [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n"]


def test_large_buffers_are_not_joined():
    large = bytearray(1025)
    buffers = framed((b"SET", (b"head", large, bytes(1024))))
    assert buffers[0] == b"*2\r\n$3\r\nSET\r\n$2053\r\nhead"
    assert buffers[1] is large
    assert buffers[2] == bytes(1024) + b"\r\n"


def test_a_value_may_be_given_a_time_to_live():
    assert set_request(b"k", (b"v",)).command == framed((b"SET", b"k", b"v"))
    with_ttl = set_request(b"k", (b"v", b"w"), ttl_ms=1500)
    assert with_ttl.command == framed((b"SET", b"k", b"vw", b"PX", b"1500"))


def test_a_request_is_as_large_as_what_it_moves():
    assert get(100).size_bytes == 104
    assert set_request(b"k", (bytes(5000),)).size_bytes > 5000


# Replies that are expected


@pytest.mark.parametrize(
    ("stream", "reply"),
    [
        pytest.param(b"+OK\r\n", b"OK", id="line"),
        pytest.param(b":-12\r\n", b"-12", id="number"),
        pytest.param(b"$5\r\n\r\n:-$\r\n", b"\r\n:-$", id="short-value"),
        pytest.param(b"$0\r\n\r\n", b"", id="empty-value"),
        pytest.param(b"$-1\r\n", None, id="nil"),
        pytest.param(b"+\r\n", b"", id="empty-line"),
    ],
)
def test_a_short_reply_is_read(stream: bytes, reply: Reply):
    request = call()
    assert read(stream, request).trouble is None
    assert request.reply == reply


def test_a_value_goes_where_it_belongs():
    memory = bytearray(b"....." + bytes(1000) + b".....")
    payload = bytes(range(250)) * 4
    request = get_request(b"k", head_bytes=4, payload=memoryview(memory)[5:-5])
    read(value(payload), request)
    assert request.reply == HEAD
    assert memory == b"....." + payload + b"....."


def test_payloads_are_read_by_few_reads_that_bring_nothing_else():
    def block() -> Request:
        return get_request(b"k", head_bytes=192, payload=memoryview(bytearray(5000)))

    reader = ReplyReader()
    for request in (block(), block(), call(), block()):
        reader.expect(request)
    one = b"$5192\r\n" + bytes(5192) + b"\r\n"
    stream = one + one + b"+OK\r\n" + one
    asked = []
    while stream:
        view = reader.buffer()
        asked.append(len(view))
        count = min(len(view), len(stream))
        view[:count] = stream[:count]
        stream = stream[count:]
        reader.advance(count)
    first = len(b"$5192\r\n") + 192
    # The line end behind a value comes with the line and the head of the next.
    assert asked[:4] == [first, 5000, 2 + first, 5000]
    assert asked.count(5000) == 3
    assert len(asked) == 8


def test_a_call_and_a_value_may_share_a_read():
    short, large = call(), get(10)
    read(b"$3\r\nabc\r\n" + value(b"0123456789"), short, large)
    assert (short.reply, large.reply, payload_of(large)) == (b"abc", HEAD, b"0123456789")


@given(st.data())
def test_any_split_into_reads_gives_the_same(data: st.DataObject):
    expected: list[tuple[Request, Reply, bytes | None]] = []
    stream = b""
    for _ in range(data.draw(st.integers(1, 6))):
        payload = data.draw(st.binary(max_size=300))
        kind = data.draw(st.sampled_from(("get", "nil", "other size", "error", "call", "line")))
        if kind == "get":
            stream += value(payload)
            expected.append((get(len(payload)), HEAD, payload))
        elif kind == "nil":
            stream += b"$-1\r\n"
            expected.append((get(len(payload)), None, None))
        elif kind == "other size":
            stream += value(payload)
            expected.append((get(len(payload) + 1), FrameError(), None))
        elif kind == "error":
            stream += b"-ERR no\r\n"
            expected.append((get(len(payload)), RespError("ERR no"), None))
        elif kind == "call":
            stream += b"$%d\r\n%b\r\n" % (len(payload), payload)
            expected.append((call(), payload, None))
        else:
            stream += b"+OK\r\n"
            expected.append((call(), b"OK", None))
    reader = read(
        stream,
        *(request for request, _, _ in expected),
        sizes=iter(lambda: data.draw(st.integers(1, 400)), None),
    )
    assert (reader.trouble, reader.outstanding) == (None, 0)
    for request, reply, payload in expected:
        if isinstance(reply, HearthKVError):
            assert type(request.reply) is type(reply)
            assert str(reply) in str(request.reply)
        else:
            assert request.reply == reply
        if payload is not None:
            assert payload_of(request) == payload


# Replies that are not


def test_an_error_of_the_server_is_the_reply_of_one_request():
    first, second, third = get(10), call(), get(10)
    read(b"-OOM no\r\n-ERR\r\n" + value(b"0123456789"), first, second, third)
    assert (type(first.reply), str(first.reply)) == (RespError, "OOM no")
    assert (type(second.reply), str(second.reply)) == (RespError, "ERR")
    assert payload_of(third) == b"0123456789"


@pytest.mark.parametrize("size", [0, 1, 9, 11, 100_000])
def test_a_value_of_another_size_is_read_over(size: int):
    first, second = get(10), get(10)
    stream = b"$%d\r\n%b\r\n" % (size, bytes(size)) + value(b"0123456789")
    read(stream, first, second)
    assert isinstance(first.reply, FrameError)
    assert str(first.reply) == f"value is {size} bytes, must be 14"
    assert payload_of(first) == bytes(10)
    assert (second.reply, payload_of(second)) == (HEAD, b"0123456789")


def test_a_value_too_long_for_a_short_reply_is_read_over():
    first, second = call(), call()
    size = SHORT_BYTES_MAX + 1
    read(b"$%d\r\n%b\r\n+OK\r\n" % (size, bytes(size)), first, second)
    assert isinstance(first.reply, FrameError)
    assert second.reply == b"OK"


@pytest.mark.parametrize("request_of", [call, lambda: get(3)], ids=["call", "get"])
@pytest.mark.parametrize(
    ("stream", "text"),
    [
        pytest.param(b"$many\r\n", r"a value is said to have b'many' bytes", id="no-length"),
        pytest.param(b"$-2\r\n", r"a value is said to have b'-2' bytes", id="negative"),
        pytest.param(b"$536870913\r\n", "a value is said to have", id="over-the-servers-limit"),
        pytest.param(b"$9999999999\r\n", "a value is said to have", id="absurd"),
        pytest.param(b"$7\r\nhead123!!", "a value ends with b'!!'", id="no-line-end"),
        pytest.param(b"*1\r\n", r"a reply begins with b'\*1'", id="a-list"),
        pytest.param(b"HTTP/1.1 400\r\n", "a reply begins with b'HTTP", id="no-redis"),
        pytest.param(b"\r\n", "a reply begins with b''", id="nothing"),
        pytest.param(b"x" * 2000, "a line has over 1024 bytes", id="endless-line"),
    ],
)
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_nonsense_ends_everything(
    request_of: Callable[[], Request], stream: bytes, text: str, piece: int
):
    requests = [request_of(), get(5)]
    reader = read(stream, *requests, sizes=itertools.repeat(piece))
    assert reader.trouble is not None
    for request in requests:
        assert isinstance(request.reply, StoreUnavailableError)
    with pytest.raises(StoreUnavailableError, match=text):
        raise reader.trouble


@pytest.mark.parametrize("stream", [b"+OK\r\n", b":4\r\n"])
def test_a_value_is_no_line(stream: bytes):
    request = get(3)
    assert read(stream, request).trouble is not None
    assert isinstance(request.reply, StoreUnavailableError)


def test_bytes_that_nobody_asked_for_end_the_stream():
    reader = read(b"+")
    assert "nobody asked for" in str(reader.trouble)


def test_bytes_behind_the_last_reply_end_the_stream():
    request = call()
    reader = read(b"+OK\r\n+OK\r\n", request)
    assert request.reply == b"OK"
    assert "nobody asked for" in str(reader.trouble)


def test_a_connection_that_is_lost_fails_all_that_is_outstanding():
    first, second, third = get(10), get(10), call()
    reader = read(value(b"0123456789") + b"$14\r\nhead01234", first, second, third)
    assert reader.fail(LOST) == [second, third]
    assert (first.reply, second.reply, third.reply) == (HEAD, LOST, LOST)
    assert (reader.trouble, reader.fail(LOST)) == (LOST, [])


# Requests that are given up


@pytest.mark.parametrize("arrived", range(len(value(b"0123456789"))))
@pytest.mark.parametrize("piece", [3, 1 << 20])
def test_the_memory_of_a_request_that_is_given_up_is_left_alone(arrived: int, piece: int):
    first, second = get(10), get(10)
    reader = ReplyReader()
    reader.expect(first)
    reader.expect(second)
    stream = value(b"0123456789") + value(b"abcdefghij")
    memory = first.payload
    assert memory is not None
    finished = feed(reader, stream[:arrived], itertools.repeat(piece))
    before = bytes(memory)
    reader.withdraw(first)
    finished += feed(reader, stream[arrived:], itertools.repeat(piece))
    assert bytes(memory) == before
    assert finished == [first, second]
    assert (second.reply, payload_of(second)) == (HEAD, b"abcdefghij")


def test_one_behind_others_can_be_given_up():
    requests = [get(3), get(3), call(), get(3)]
    reader = ReplyReader()
    for request in requests:
        reader.expect(request)
    for request in requests[1:3]:
        reader.withdraw(request)
    feed(reader, value(b"abc") * 2 + b"+OK\r\n" + value(b"def"), itertools.repeat(5))
    assert (reader.outstanding, reader.trouble) == (0, None)
    assert [payload_of(requests[0]), payload_of(requests[3])] == [b"abc", b"def"]


def test_what_is_finished_can_be_given_up_without_effect():
    request = get(3)
    reader = read(value(b"abc"), request)
    reader.withdraw(request)
    assert payload_of(request) == b"abc"


# Faults


def pipelined() -> tuple[list[Request], bytes]:
    requests = [get(40), call(), get(40)]
    stream = value(b"a" * 40) + b"+OK\r\n" + value(b"b" * 40)
    return requests, stream


@pytest.mark.parametrize("piece", [1, 13, 1 << 20])
def test_a_stream_that_is_cut_anywhere_gives_whole_replies_or_errors(piece: int):
    _, stream = pipelined()
    for end in range(len(stream)):
        requests, _ = pipelined()
        reader = read(stream[:end], *requests, sizes=itertools.repeat(piece))
        reader.fail(LOST)
        for request, wanted in zip(requests, (b"a" * 40, None, b"b" * 40), strict=True):
            if wanted is None:
                assert request.reply in {b"OK", LOST}
            elif request.reply is not LOST:
                assert (request.reply, payload_of(request)) == (HEAD, wanted)


@pytest.mark.parametrize("flip", [*(1 << bit for bit in range(8)), 0xFF])
def test_a_flipped_byte_never_moves_a_payload(flip: int):
    """Head and payload may be damaged, which their checksums tell, but not shifted or short."""
    requests, stream = pipelined()
    for at in range(len(stream)):
        requests, _ = pipelined()
        damaged = bytearray(stream)
        damaged[at] ^= flip
        reader = read(bytes(damaged), *requests)
        reader.fail(LOST)
        for request, wanted in zip(requests, (b"a" * 40, None, b"b" * 40), strict=True):
            if wanted is None or not isinstance(request.reply, bytes):
                continue
            found = request.reply + payload_of(request)
            differing = sum(x != y for x, y in zip(found, HEAD + wanted, strict=True))
            assert differing <= 1
