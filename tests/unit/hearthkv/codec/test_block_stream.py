"""`hearthkv.codec.block_stream` beside protobuf: the same bytes out, the same steps in."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.codec import block_stream, cache_node
from hearthkv.core.block_io import (
    CHUNK_BYTES_MAX,
    BlockChunk,
    BlockHeader,
    ReadEnd,
    WriteAnswer,
    WriteStatus,
)
from hearthkv.core.errors import BadInputError, BadRequestError
from hearthkv.v1 import cache_node_pb2 as pb2
from tests.unit.hearthkv.codec import samples
from tests.unit.hearthkv.codec.messages import arbitrary

SIDES = {
    "read": (
        samples.CHUNKS | st.sampled_from(ReadEnd),
        pb2.ReadResponse,
        block_stream.pack_read_step,
        block_stream.unpack_read_step,
        cache_node.encode_read_step,
        cache_node.decode_read_step,
    ),
    "write": (
        samples.CHUNKS | samples.WRITE_START,
        pb2.WriteRequest,
        block_stream.pack_write_step,
        block_stream.unpack_write_step,
        cache_node.encode_write_step,
        cache_node.decode_write_step,
    ),
}
both_sides = pytest.mark.parametrize("side", SIDES)

HEADER = BlockHeader(b"k" * 16, b"p" * 16, 1 << 20, 7)
BIG = BlockChunk(HEADER, bytes(range(256)) * 4096)

ODD_FIELDS = [
    *(b"\x0a", b"\x12", b"\x1a", b"\x0a\x00", b"\x1a\x00", b"\x7a\x01x", b"\x08\x01"),
    *(b"\x0a\x80\x00", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x81\x80\x80\x80\x00x"),
]


def outcome(act):
    """What came of it: a step, or that it was refused."""
    try:
        return act()
    except (BadInputError, DecodeError):
        return "refused"


@both_sides
@given(data=st.data())
def test_what_is_packed_is_what_protobuf_writes(side, data):
    steps, _, pack, _, encode, _ = SIDES[side]
    step = data.draw(steps)
    assert pack(step) == encode(step).SerializeToString()


@both_sides
@given(data=st.data())
def test_what_is_packed_unpacks_to_itself(side, data):
    steps, _, pack, unpack, _, _ = SIDES[side]
    step = data.draw(steps)
    assert unpack(pack(step)) == step


@both_sides
@given(data=st.data())
def test_any_message_of_protobuf_is_understood_as_protobuf_does(side, data):
    _, message_type, _, unpack, _, decode = SIDES[side]
    message = data.draw(arbitrary(message_type))
    packed = message.SerializeToString()
    assert outcome(lambda: unpack(packed)) == outcome(lambda: decode(message))


@both_sides
@given(data=st.data())
def test_any_bytes_are_understood_as_protobuf_does(side, data):
    """Bytes of messages, cut, flipped, repeated and strung together with foreign fields."""
    steps, message_type, _, unpack, encode, decode = SIDES[side]
    piece = (
        steps.map(lambda step: encode(step).SerializeToString())
        | st.binary(max_size=6)
        | st.sampled_from(ODD_FIELDS)
    )
    packed = bytearray(b"".join(data.draw(st.lists(piece, max_size=4))))
    for at in data.draw(st.lists(st.integers(0, max(len(packed) - 1, 0)), max_size=3)):
        if packed:
            packed[at] = data.draw(st.integers(0, 255))
    packed = packed[: data.draw(st.integers(0, len(packed)))]
    found = outcome(lambda: unpack(bytes(packed)))
    expected = outcome(lambda: decode(message_type.FromString(bytes(packed))))
    assert found == expected


@both_sides
def test_a_message_cut_anywhere_is_refused_or_another_message(side):
    _, message_type, pack, unpack, _, decode = SIDES[side]
    packed = pack((BlockChunk(HEADER, b"payload" * 30), BlockChunk(HEADER, b"more")))
    for cut in range(len(packed)):
        found = outcome(lambda cut=cut: unpack(packed[:cut]))
        part = packed[:cut]
        assert found == outcome(lambda part=part: decode(message_type.FromString(part)))
        assert found == "refused"


@both_sides
def test_payloads_are_views_of_the_message(side):
    _, _, pack, unpack, _, _ = SIDES[side]
    packed = pack((BIG,))
    (chunk,) = unpack(packed)
    assert isinstance(chunk.data, memoryview)
    assert chunk.data.obj is packed
    assert chunk.data.nbytes == CHUNK_BYTES_MAX
    assert len(packed) - chunk.data.nbytes < 100


@both_sides
def test_views_are_packed_as_their_bytes(side):
    _, _, pack, unpack, _, _ = SIDES[side]
    memory = bytearray(b"abcdef")
    packed = pack((BlockChunk(None, memoryview(memory)[1:3]), BlockChunk(HEADER, memory)))
    memory[:] = bytes(6)  # what was packed is a copy
    first, second = unpack(packed)
    assert (bytes(first.data), bytes(second.data)) == (b"bc", b"abcdef")


@both_sides
@pytest.mark.parametrize(
    ("packed", "text"),
    [
        (b"", "is None|is empty"),
        (b"\x1a\x00", "message has 0 chunks, must have at least 1"),
        (b"\xff\xff", "message of 2 bytes is no protobuf"),
        (b"\x1a\x04\x0a\x02\x0a\x05", "message of 6 bytes is no protobuf"),
    ],
    ids=["empty", "no-chunks", "garbage", "torn-inside"],
)
def test_what_is_no_step_is_refused(side, packed: bytes, text: str):
    _, _, _, unpack, _, _ = SIDES[side]
    with pytest.raises(BadRequestError, match=text):
        unpack(packed)


@both_sides
def test_a_chunk_beyond_the_bound_is_refused(side):
    _, _, pack, unpack, _, _ = SIDES[side]
    with pytest.raises(BadRequestError, match="chunk is 1048577 bytes, must be <= 1048576"):
        unpack(pack((BlockChunk(None, bytes(CHUNK_BYTES_MAX + 1)),)))


@both_sides
@pytest.mark.parametrize("odd", [b"\x1a\x01x", b"\x12\x01x\x1a\x01y", b"\x12\x01x\x12\x01y"])
def test_what_a_newer_or_odd_writer_sends_is_left_to_protobuf(side, odd: bytes):
    """A field that is not known yet, before or behind the payload, and a payload sent twice."""
    _, message_type, _, unpack, _, decode = SIDES[side]
    packed = b"\x1a" + bytes([2 + len(odd)]) + b"\x0a" + bytes([len(odd)]) + odd
    (chunk,) = unpack(packed)
    assert (chunk,) == decode(message_type.FromString(packed))
    assert isinstance(chunk.data, bytes)


@given(samples.READ_QUERY)
def test_a_request_is_packed_as_its_message(query):
    packed = block_stream.pack_read_request(query)
    assert cache_node.decode_read_request(pb2.ReadRequest.FromString(packed)) == query


def test_an_answer_to_a_write_is_unpacked():
    message = cache_node.encode_write_response([WriteStatus.STORED, WriteStatus.NO_ROOM])
    answer = block_stream.unpack_write_response(message.SerializeToString())
    assert answer == WriteAnswer([WriteStatus.STORED, WriteStatus.NO_ROOM], takes_chunks=True)


def test_an_answer_that_is_no_message_is_refused():
    with pytest.raises(BadRequestError, match="message of 1 bytes is no protobuf"):
        block_stream.unpack_write_response(b"\x0a")


def test_the_methods_are_those_of_the_contract():
    service = pb2.DESCRIPTOR.services_by_name["CacheNode"]
    paths = {f"/{service.full_name}/{method.name}" for method in service.methods}
    assert {block_stream.READ_METHOD, block_stream.WRITE_METHOD} <= paths
