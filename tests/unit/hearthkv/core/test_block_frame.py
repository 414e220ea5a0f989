"""Tests of `hearthkv.core.block_frame`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.block_frame import (
    FRAME_BYTES,
    BlockFrame,
    check_block,
    check_parts,
    decode_frame,
    encode_frame,
    frame_of,
)
from hearthkv.core.checksum import block_checksum
from hearthkv.core.errors import FrameError
from hearthkv.core.namespace import BLOCK_BYTES_MAX, NamespaceSpec
from hearthkv.core.tier import Tier

SPEC = NamespaceSpec(b"n" * 16, 16, 8)
PAYLOAD = b"12345678"
FRAME = BlockFrame(SPEC, b"k" * 16, b"p" * 16, block_checksum(b"n" * 16, b"k" * 16, PAYLOAD), 5)
REF = FRAME.ref(Tier.DRAM)

specs = st.builds(
    NamespaceSpec,
    st.binary(min_size=16, max_size=32),
    st.integers(1, 65536),
    st.integers(1, BLOCK_BYTES_MAX),
)
u64 = st.integers(0, 2**64 - 1)
frames = st.builds(
    BlockFrame, specs, st.binary(min_size=1, max_size=32), st.binary(max_size=32), u64, u64
)


@given(frames)
def test_a_frame_comes_back_as_it_went(frame: BlockFrame):
    encoded = encode_frame(frame)
    assert len(encoded) == FRAME_BYTES
    assert decode_frame(encoded) == frame
    assert decode_frame(memoryview(encoded + b"payload")) == frame


@given(frames, st.integers(0, FRAME_BYTES * 8 - 1))
def test_one_flipped_bit_anywhere_is_found(frame: BlockFrame, bit: int):
    damaged = bytearray(encode_frame(frame))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FrameError):
        decode_frame(damaged)


def test_a_frame_and_a_ref_name_the_same_copy():
    assert FRAME.is_of(REF)
    assert frame_of(SPEC, REF) == FRAME
    assert REF.size_bytes == SPEC.block_bytes
    assert FRAME.stored_bytes == FRAME_BYTES + 8


def test_a_whole_block_gives_its_payload():
    assert check_block(encode_frame(FRAME) + PAYLOAD, REF) == PAYLOAD


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        pytest.param(b"", "frame is 0 bytes, must be 192", id="empty"),
        pytest.param(b"x" * 200, "must start with b'HearthKV'", id="foreign"),
        pytest.param(
            encode_frame(FRAME)[:8] + b"\x02" + encode_frame(FRAME)[9:],
            "has version 2, must be 1",
            id="another-version",
        ),
        pytest.param(encode_frame(FRAME) + PAYLOAD[:-1], "payload is 7 bytes", id="short"),
        pytest.param(encode_frame(FRAME) + PAYLOAD + b"9", "payload is 9 bytes", id="long"),
        pytest.param(encode_frame(FRAME) + b"2" + PAYLOAD[1:], "payload has checksum", id="bit"),
    ],
)
def test_a_block_that_is_not_whole_is_refused(stored: bytes, text: str):
    with pytest.raises(FrameError, match=text):
        check_block(stored, REF)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(BlockFrame(SPEC, b"K" * 16, b"p" * 16, FRAME.checksum, 5), id="key"),
        pytest.param(BlockFrame(SPEC, b"k" * 16, b"p" * 16, FRAME.checksum, 6), id="copy"),
        pytest.param(
            BlockFrame(NamespaceSpec(b"N" * 16, 16, 8), b"k" * 16, b"p" * 16, FRAME.checksum, 5),
            id="namespace",
        ),
    ],
)
def test_another_block_is_refused(other: BlockFrame):
    with pytest.raises(FrameError, match="frame is of block"):
        check_block(encode_frame(other) + PAYLOAD, REF)


def test_a_sealed_frame_of_an_impossible_namespace_is_refused():
    impossible = BlockFrame(_Unchecked(), b"k", b"", 0, 0)
    with pytest.raises(FrameError, match="names no possible namespace"):
        decode_frame(encode_frame(impossible))


class _Unchecked:
    namespace_id = b"n" * 16
    block_size = 0
    block_bytes = 8


def test_frame_and_payload_may_lie_apart():
    check_parts(encode_frame(FRAME), memoryview(PAYLOAD), REF)
    with pytest.raises(FrameError, match="payload is 7 bytes, frame says 8"):
        check_parts(encode_frame(FRAME), PAYLOAD[:-1], REF)
    with pytest.raises(FrameError, match="payload has checksum"):
        check_parts(encode_frame(FRAME), b"12345679", REF)
