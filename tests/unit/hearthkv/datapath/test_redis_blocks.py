"""Tests of `hearthkv.datapath.redis_blocks`."""

import pytest

from hearthkv.core.block_frame import BlockFrame, encode_frame
from hearthkv.core.checksum import block_checksum
from hearthkv.core.errors import (
    BlockLostError,
    FrameError,
    RespError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier
from hearthkv.datapath.redis_blocks import (
    NamedRead,
    NamedWrite,
    read_outcome,
    read_request,
    write_outcome,
    write_request,
)
from hearthkv.datapath.redis_place import RedisPlace
from hearthkv.datapath.resp_wire import Reply, framed

PLACE = RedisPlace(path="/run/s", password="secret")
SPEC = NamespaceSpec(b"n" * 16, 16, 8)
PAYLOAD = b"12345678"
FRAME = BlockFrame(SPEC, b"k" * 16, b"", block_checksum(b"n" * 16, b"k" * 16, PAYLOAD), 5)
HEAD = encode_frame(FRAME)


def outcome_of_read(reply: Reply, payload: bytes = PAYLOAD) -> StoreError | None:
    read = NamedRead(b"name", FRAME.ref(Tier.DRAM), memoryview(bytearray(payload)))
    request = read_request(read)
    request.reply = reply
    return read_outcome(PLACE, read, request)


def test_a_copy_is_asked_for_and_stored_as_frame_and_payload():
    read = NamedRead(b"name", FRAME.ref(Tier.DRAM), memoryview(bytearray(8)))
    assert read_request(read).command == framed((b"GET", b"name"))
    assert read_request(read).size_bytes == 200
    stored = framed((b"SET", b"name", HEAD + PAYLOAD, b"PX", b"7"))
    assert write_request(NamedWrite(b"name", FRAME, PAYLOAD, 7)).command == stored


def test_the_right_bytes_are_a_block():
    assert outcome_of_read(HEAD) is None


@pytest.mark.parametrize(
    ("reply", "payload", "kind", "text"),
    [
        pytest.param(None, PAYLOAD, BlockLostError, "no value for block 6b6b", id="nil"),
        pytest.param(HEAD[:-1] + b"x", PAYLOAD, BlockLostError, "seal", id="damaged-frame"),
        pytest.param(HEAD, b"12345679", BlockLostError, "checksum", id="damaged-payload"),
        pytest.param(FrameError("size"), PAYLOAD, BlockLostError, "size", id="other-size"),
        pytest.param(RespError("NOAUTH"), PAYLOAD, StoreUnavailableError, "NOAUTH", id="refused"),
        pytest.param(StoreUnavailableError("cut"), PAYLOAD, StoreUnavailableError, "cut", id="cut"),
    ],
)
def test_all_else_is_none(reply: Reply, payload: bytes, kind: type[StoreError], text: str):
    outcome = outcome_of_read(reply, payload)
    assert type(outcome) is kind
    assert text in str(outcome)
    assert str(outcome).startswith("unix:///run/s")


@pytest.mark.parametrize(
    ("reply", "kind", "text"),
    [
        (b"OK", type(None), "None"),
        (b"QUEUED", StoreUnavailableError, "answered b'QUEUED', must answer OK"),
        (None, StoreUnavailableError, "answered None, must answer OK"),
        (RespError("OOM command not allowed"), StoreFullError, "is full: OOM"),
        (RespError("READONLY"), StoreUnavailableError, "READONLY"),
        (StoreUnavailableError("cut"), StoreUnavailableError, "cut"),
    ],
)
def test_only_ok_is_a_stored_block(reply: Reply, kind: type[object], text: str):
    request = write_request(NamedWrite(b"name", FRAME, PAYLOAD))
    request.reply = reply
    outcome = write_outcome(PLACE, request)
    assert type(outcome) is kind
    assert text in str(outcome)
