"""`direct_path.proto`: round trips, and messages that no correct peer sends."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.codec import direct_path as codec
from hearthkv.core.block_io import ReadEnd, WriteStatus
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.direct_path import (
    Attached,
    Attachment,
    FileAddress,
    Located,
    LocatedBlock,
    LocateQuery,
    RedisAddress,
    Reservation,
    ReservedCopy,
    ReserveQuery,
    ThroughNode,
)
from hearthkv.core.errors import BadInputError, BadRequestError
from hearthkv.core.tier import Tier
from hearthkv.v1 import direct_path_pb2 as pb2
from tests.unit.hearthkv.codec import samples
from tests.unit.hearthkv.codec.messages import arbitrary

BLOCK_BYTES = 100
PROOF = st.binary(max_size=32)
ATTACHMENT = st.builds(
    Attachment,
    samples.NODE_ID,
    samples.UINT64,
    st.lists(samples.TEXT, max_size=3).map(tuple),
    samples.TEXT,
    st.booleans(),
)
ADDRESS = st.builds(RedisAddress, samples.UINT32) | st.builds(
    FileAddress, st.sampled_from(["a/0.slab", "a/1.slab"]), samples.UINT64
)
OUTCOME = (
    st.builds(ReservedCopy, samples.UINT64, samples.UINT32)
    | st.sampled_from(WriteStatus)
    | st.just(ThroughNode())
)


@st.composite
def reserve_queries(draw):
    keys = draw(samples.KEYS)
    checksums = draw(st.tuples(*[samples.UINT64] * len(keys)))
    parent_key = draw(st.just(b"") | st.binary(min_size=keys.width, max_size=keys.width))
    return ReserveQuery(draw(PROOF), draw(samples.WRITE_START), keys, parent_key, checksums)


LOCATE_QUERY = st.builds(
    LocateQuery,
    PROOF,
    samples.NAMESPACE_ID,
    samples.KEYS,
    samples.UINT32,
    st.none() | samples.SESSION_ID,
)
QUERY = LocateQuery(b"", b"n" * 16, PackedKeys(b"abcd", 1), 0, None)

PAIRS = {
    "attach_response": st.builds(Attached, samples.TEXT, st.none() | ATTACHMENT),
    "locate_request": LOCATE_QUERY,
    "reserve_request": reserve_queries(),
    "reserve_response": st.builds(
        Reservation, samples.TEXT, st.lists(OUTCOME, max_size=4).map(tuple), samples.SECONDS
    ),
    "commit_response": st.lists(st.sampled_from(WriteStatus)),
}
MESSAGES = {
    "attach_response": pb2.AttachResponse,
    "locate_request": pb2.LocateRequest,
    "reserve_request": pb2.ReserveRequest,
    "reserve_response": pb2.ReserveResponse,
    "commit_response": pb2.CommitResponse,
}


def test_every_decoder_is_tried_below():
    decoders = {name.removeprefix("decode_") for name in dir(codec) if "decode_" in name}
    assert decoders == {*MESSAGES, "locate_response"}
    assert set(PAIRS) == set(MESSAGES)


@pytest.mark.parametrize("name", PAIRS)
@given(data=st.data())
def test_what_is_encoded_decodes_to_itself(name, data):
    value = data.draw(PAIRS[name])
    message = getattr(codec, f"encode_{name}")(value)
    parsed = MESSAGES[name].FromString(message.SerializeToString())
    assert getattr(codec, f"decode_{name}")(parsed) == value


@given(
    addresses=st.lists(ADDRESS, max_size=4),
    end=st.sampled_from(ReadEnd),
    number=samples.UINT64,
)
def test_where_a_prefix_lies_decodes_to_itself(addresses, end, number):
    keys = list(QUERY.keys)
    blocks = tuple(
        LocatedBlock(
            BlockRef(
                QUERY.namespace_id,
                key,
                before,
                Tier.DRAM if isinstance(address, RedisAddress) else Tier.SSD,
                number,
                number ^ 1,
                BLOCK_BYTES,
            ),
            address,
        )
        for key, before, address in zip(keys, [b"", *keys], addresses, strict=False)
    )
    message = codec.encode_locate_response(Located(blocks, end))
    parsed = pb2.LocateResponse.FromString(message.SerializeToString())
    assert codec.decode_locate_response(parsed, QUERY, BLOCK_BYTES) == Located(blocks, end)


@pytest.mark.parametrize("name", MESSAGES)
@given(data=st.data())
def test_whatever_a_peer_sends_is_understood_or_refused(name, data):
    message = data.draw(arbitrary(MESSAGES[name]))
    with suppress(BadInputError):
        getattr(codec, f"decode_{name}")(message)


@given(data=st.data())
def test_whatever_a_node_says_of_places_is_understood_or_refused(data):
    message = data.draw(arbitrary(pb2.LocateResponse))
    try:
        located = codec.decode_locate_response(message, QUERY, BLOCK_BYTES)
    except BadInputError:
        return
    assert len(located.blocks) <= len(QUERY.keys)


def test_more_blocks_than_were_asked_for_are_refused_before_they_are_listed():
    message = pb2.LocateResponse(end=1)
    message.runs.add(tier=2, blocks=2**32 - 1)
    with pytest.raises(BadRequestError, match="4 at most"):
        codec.decode_locate_response(message, QUERY, BLOCK_BYTES)


@pytest.mark.parametrize(("file", "offsets"), [(1, [0]), (0, [])])
def test_a_place_that_the_answer_does_not_name_is_refused(file, offsets):
    message = pb2.LocateResponse(end=1, files=["a"], sequences=[1], checksums=[1], offsets=offsets)
    message.runs.add(tier=3, place=file, blocks=1)
    with pytest.raises(BadRequestError):
        codec.decode_locate_response(message, QUERY, BLOCK_BYTES)
