"""`cache_node.proto`: round trips, and messages that no correct peer sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.codec import cache_node
from hearthkv.core.block_io import BlockChunk, Matched, ReadEnd, WriteStatus
from hearthkv.core.errors import BadInputError, BadRequestError, BadSessionIdError
from hearthkv.core.tier import TierCounts
from hearthkv.v1 import block_pb2
from hearthkv.v1 import cache_node_pb2 as pb2
from tests.unit.hearthkv.codec import samples
from tests.unit.hearthkv.codec.messages import arbitrary

PAIRS = {
    "match_request": samples.MATCH_QUERY,
    "match_response": samples.MATCHED,
    "read_request": samples.READ_QUERY,
    "read_step": samples.CHUNKS | st.sampled_from(ReadEnd),
    "write_step": samples.CHUNKS | samples.WRITE_START,
    "write_start": samples.WRITE_START,
    "write_response": st.lists(st.sampled_from(WriteStatus)),
    "prefetch_request": samples.KEYS_QUERY,
    "pin_request": samples.PIN_QUERY,
    "pin_response": samples.PINNED,
    "end_turn_request": samples.ENDED_TURN,
    "drop_request": samples.DROP_TARGET,
    "describe_response": samples.DESCRIPTION,
}
MESSAGES = {
    "match_request": pb2.MatchRequest,
    "match_response": pb2.MatchResponse,
    "read_request": pb2.ReadRequest,
    "read_step": pb2.ReadResponse,
    "write_step": pb2.WriteRequest,
    "write_start": pb2.WriteStart,
    "write_response": pb2.WriteResponse,
    "prefetch_request": pb2.PrefetchRequest,
    "prefetch_response": pb2.PrefetchResponse,
    "pin_request": pb2.PinRequest,
    "pin_response": pb2.PinResponse,
    "unpin_response": pb2.UnpinResponse,
    "end_turn_request": pb2.EndTurnRequest,
    "end_turn_response": pb2.EndTurnResponse,
    "drop_request": pb2.DropRequest,
    "drop_response": pb2.DropResponse,
    "describe_response": pb2.DescribeResponse,
}


def test_every_decoder_is_tried_below():
    decoders = {name.removeprefix("decode_") for name in dir(cache_node) if "decode_" in name}
    assert decoders == set(MESSAGES)
    assert set(PAIRS) < set(MESSAGES)


@pytest.mark.parametrize("name", PAIRS)
@given(data=st.data())
def test_what_is_encoded_decodes_to_itself(name, data):
    value = data.draw(PAIRS[name])
    message = getattr(cache_node, f"encode_{name}")(value)
    parsed = MESSAGES[name].FromString(message.SerializeToString())
    assert getattr(cache_node, f"decode_{name}")(parsed) == value


@pytest.mark.parametrize("name", MESSAGES)
@given(data=st.data())
def test_any_message_is_understood_or_refused(name, data):
    message = data.draw(arbitrary(MESSAGES[name]))
    try:
        getattr(cache_node, f"decode_{name}")(message)
    except BadInputError as error:
        assert 0 < len(str(error)) < 2500  # noqa: PT017


def test_a_view_is_sent_as_its_bytes():
    chunk = BlockChunk(None, memoryview(b"abcd")[1:3])
    assert cache_node.encode_read_step((chunk,)).chunk.data == b"bc"


@pytest.mark.parametrize("message", [pb2.ReadResponse(), pb2.ReadResponse(end=99)])
def test_a_read_step_that_says_nothing_known_is_refused(message):
    with pytest.raises(BadRequestError, match="must be a chunk or a known end"):
        cache_node.decode_read_step(message)


def test_an_empty_write_step_is_refused():
    with pytest.raises(BadRequestError, match="write step is empty, must be a start or a chunk"):
        cache_node.decode_write_step(pb2.WriteRequest())


def test_a_node_says_that_it_takes_several_chunks_in_a_message():
    assert cache_node.encode_write_response([]).takes_chunks
    assert not pb2.WriteResponse().takes_chunks


def test_a_drop_of_nothing_is_refused():
    with pytest.raises(BadRequestError, match="drop names nothing, must name blocks, a session"):
        cache_node.decode_drop_request(pb2.DropRequest())


def test_a_drop_of_no_session_is_refused():
    with pytest.raises(BadSessionIdError, match="session_id is 0 bytes"):
        cache_node.decode_drop_request(pb2.DropRequest(session=pb2.SessionBlocks()))


def test_a_write_status_of_a_newer_node_counts_as_unavailable():
    statuses = cache_node.decode_write_response(pb2.WriteResponse(statuses=[1, 99, 0]))
    assert statuses == [WriteStatus.STORED, WriteStatus.UNAVAILABLE, WriteStatus.UNAVAILABLE]


@pytest.mark.parametrize("nanoseconds", [0, -1, 3_600_000_000_001, -(10**12)])
def test_a_pin_of_no_time_or_too_long_is_refused(nanoseconds):
    message = pb2.PinRequest(namespace_id=bytes(16), keys=block_pb2.PackedKeys(key_width=16))
    message.ttl.FromNanoseconds(nanoseconds)
    with pytest.raises(BadRequestError, match=r"ttl is .* s, must be over 0 and at most 3600 s"):
        cache_node.decode_pin_request(message)


def test_a_pin_of_one_hour_is_the_longest():
    message = pb2.PinRequest(namespace_id=bytes(16), keys=block_pb2.PackedKeys(key_width=16))
    message.ttl.FromSeconds(3600)
    assert cache_node.decode_pin_request(message).ttl_s == 3600


def test_the_sum_of_a_match_goes_with_it():
    matched = Matched(TierCounts(1, 2, 3), 9)
    assert cache_node.encode_match_response(matched).matched_blocks == 6


def test_a_node_that_knows_of_no_arrivals_is_as_good():
    message = pb2.MatchResponse(matched_by_tier=[block_pb2.TierBlocks(tier=2, blocks=4)])
    assert cache_node.decode_match_response(message) == Matched(TierCounts(0, 4, 0), 4)


def test_answers_that_are_one_figure_are_that_figure():
    assert cache_node.decode_prefetch_response(pb2.PrefetchResponse(queued_blocks=3)) == 3
    assert cache_node.decode_unpin_response(pb2.UnpinResponse(unpinned_blocks=4)) == 4
    assert cache_node.decode_drop_response(pb2.DropResponse(dropped_blocks=5)) == 5


def test_requests_carry_what_they_are_given():
    assert cache_node.encode_unpin_request("p").pin_id == "p"
    assert cache_node.encode_describe_request() == pb2.DescribeRequest()
