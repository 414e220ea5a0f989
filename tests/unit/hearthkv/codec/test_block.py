"""`block.proto`: round trips, and messages that no correct peer sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.codec import block
from hearthkv.core.block_io import CHUNK_BYTES_MAX, BlockChunk, BlockHeader
from hearthkv.core.errors import (
    BadInputError,
    BadKeysError,
    BadNamespaceError,
    BadRequestError,
    BlockSizeError,
)
from hearthkv.core.tier import Tier, TierCounts
from hearthkv.v1 import block_pb2
from tests.unit.hearthkv.codec import samples
from tests.unit.hearthkv.codec.messages import arbitrary

PAIRS = {
    "tier": (samples.TIER, block.encode_tier, block.decode_tier),
    "keys": (samples.KEYS, block.encode_keys, block.decode_keys),
    "spec": (samples.SPEC, block.encode_spec, block.decode_spec),
    "counts": (samples.COUNTS, block.encode_counts, block.decode_counts),
    "usage": (samples.USAGE, block.encode_usage, block.decode_usage),
    "header": (samples.block_headers(), block.encode_header, block.decode_header),
    "chunk": (samples.CHUNK, block.encode_chunk, block.decode_chunk),
    "chunks": (samples.CHUNKS, block.encode_chunks, block.decode_chunks),
}
DECODERS = {
    "keys": (block_pb2.PackedKeys, block.decode_keys),
    "spec": (block_pb2.NamespaceSpec, block.decode_spec),
    "counts": (block_pb2.TierBlocks, lambda message: block.decode_counts([message])),
    "usage": (block_pb2.TierUsage, block.decode_usage),
    "header": (block_pb2.BlockHeader, block.decode_header),
    "chunk": (block_pb2.BlockChunk, block.decode_chunk),
    "chunks": (block_pb2.BlockChunks, block.decode_chunks),
}


@pytest.mark.parametrize("name", PAIRS)
@given(data=st.data())
def test_what_is_encoded_decodes_to_itself(name, data):
    values, encode, decode = PAIRS[name]
    value = data.draw(values)
    assert decode(encode(value)) == value


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.data())
def test_any_message_is_understood_or_refused(name, data):
    message_type, decode = DECODERS[name]
    message = data.draw(arbitrary(message_type))
    try:
        decode(message)
    except BadInputError as error:
        assert 0 < len(str(error)) < 2500  # noqa: PT017


@pytest.mark.parametrize("value", [0, 4, -1])
def test_a_tier_that_is_none_is_refused(value):
    with pytest.raises(BadRequestError, match=rf"tier is {value}, must be one of HBM \(1\), DRAM"):
        block.decode_tier(value)


def test_keys_without_a_width_are_refused():
    with pytest.raises(BadKeysError, match=r"key_width is 0, must be in 1\.\.32"):
        block.decode_keys(block_pb2.PackedKeys())


def test_a_spec_of_zeros_is_refused():
    with pytest.raises(BadNamespaceError, match="namespace_id is 0 bytes"):
        block.decode_spec(block_pb2.NamespaceSpec())


def test_a_tier_that_is_named_twice_counts_twice():
    ssd = block_pb2.TierBlocks(tier=block_pb2.TIER_SSD, blocks=2)
    assert block.decode_counts([ssd, ssd]) == TierCounts(ssd=4)


def test_a_tier_that_holds_nothing_is_not_sent():
    assert [message.tier for message in block.encode_counts(TierCounts(dram=3))] == [Tier.DRAM]


@pytest.mark.parametrize(
    ("header", "error", "text"),
    [
        pytest.param({"key": b""}, BadKeysError, "key is 0 bytes, must be 1 to 32", id="no-key"),
        pytest.param({"key": bytes(33)}, BadKeysError, "key is 33 bytes, must be", id="long-key"),
        pytest.param(
            {"key": b"abc", "parent_key": b"ab"},
            BadKeysError,
            "parent_key is 2 bytes, must be empty or 3",
            id="other-width",
        ),
        pytest.param(
            {"key": b"a", "size_bytes": 2**40},
            BlockSizeError,
            "block is 1099511627776 bytes, must be <= 268435456",
            id="huge",
        ),
        pytest.param({"key": b"a", "tier": 9}, BadRequestError, "tier is 9, must be", id="tier"),
    ],
)
def test_a_header_that_no_block_has_is_refused(header, error, text):
    message = block_pb2.BlockChunk(header=block_pb2.BlockHeader(**header))
    with pytest.raises(error, match=text):
        block.decode_chunk(message)


def test_a_chunk_of_the_largest_size_passes_and_a_byte_more_does_not():
    block.decode_chunk(block_pb2.BlockChunk(data=bytes(CHUNK_BYTES_MAX)))
    with pytest.raises(BadRequestError, match="chunk is 1048577 bytes, must be <= 1048576"):
        block.decode_chunk(block_pb2.BlockChunk(data=bytes(CHUNK_BYTES_MAX + 1)))


@pytest.mark.parametrize(
    ("size_bytes", "lengths"),
    [
        (0, [0]),
        (1, [1]),
        (CHUNK_BYTES_MAX, [CHUNK_BYTES_MAX]),
        (CHUNK_BYTES_MAX + 1, [CHUNK_BYTES_MAX, 1]),
        (3 * CHUNK_BYTES_MAX, [CHUNK_BYTES_MAX] * 3),
    ],
)
def test_a_block_is_cut_in_order_and_its_first_part_has_the_header(size_bytes, lengths):
    header = BlockHeader(b"k", b"", size_bytes, 7)
    payload = (bytes(range(256)) * (size_bytes // 256 + 1))[:size_bytes]
    chunks = list(block.chunks_of(header, payload))
    assert [len(chunk.data) for chunk in chunks] == lengths
    assert [chunk.header for chunk in chunks] == [header] + [None] * (len(lengths) - 1)
    assert b"".join(chunk.data for chunk in chunks) == payload


def test_no_chunks_at_all_are_refused():
    with pytest.raises(BadRequestError, match="message has 0 chunks, must have at least 1"):
        block.decode_chunks(block_pb2.BlockChunks())


@pytest.mark.parametrize(
    ("sizes", "bytes_max", "expected"),
    [
        ([], 10, []),
        ([4, 4, 4], 8, [[4, 4], [4]]),
        ([4, 4], 7, [[4], [4]]),
        ([20, 1, 1], 10, [[20], [1, 1]]),
        ([1, 1], 0, [[1], [1]]),
        ([0, 1], 0, [[0], [1]]),
    ],
)
def test_small_chunks_share_a_message_in_their_order(sizes, bytes_max, expected):
    chunks = [BlockChunk(None, bytes(size)) for size in sizes]
    messages = list(block.messages_of(chunks, bytes_max))
    assert [[len(chunk.data) for chunk in message] for message in messages] == expected
    assert [chunk for message in messages for chunk in message] == chunks
