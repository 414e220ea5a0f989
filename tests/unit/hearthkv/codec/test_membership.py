"""`membership.proto`: round trips, and messages that no correct peer sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.codec import membership
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import BadInputError, BadRequestError
from hearthkv.core.routing import EventBatch, SnapshotPart
from hearthkv.v1 import block_pb2
from hearthkv.v1 import membership_pb2 as pb2
from tests.unit.hearthkv.codec import samples
from tests.unit.hearthkv.codec.messages import arbitrary

PAIRS = {
    "node_message": (samples.NODE_MESSAGE, pb2.JoinRequest),
    "router_message": (samples.ROUTER_MESSAGE, pb2.JoinResponse),
}
TOO_MANY = block_pb2.PackedKeys(keys=bytes(65_537), key_width=1)


@pytest.mark.parametrize("name", PAIRS)
@given(data=st.data())
def test_what_is_encoded_decodes_to_itself(name, data):
    values, message_type = PAIRS[name]
    value = data.draw(values)
    message = getattr(membership, f"encode_{name}")(value)
    parsed = message_type.FromString(message.SerializeToString())
    assert getattr(membership, f"decode_{name}")(parsed) == value


@pytest.mark.parametrize("name", PAIRS)
@given(data=st.data())
def test_any_message_is_understood_or_refused(name, data):
    message = data.draw(arbitrary(PAIRS[name][1]))
    try:
        getattr(membership, f"decode_{name}")(message)
    except BadInputError as error:
        assert 0 < len(str(error)) < 2500  # noqa: PT017


def test_a_node_that_says_nothing_is_refused():
    with pytest.raises(BadRequestError, match="join message is empty, must be a hello"):
        membership.decode_node_message(pb2.JoinRequest())


def test_a_router_that_says_nothing_is_refused():
    with pytest.raises(BadRequestError, match="join answer is empty, must be a welcome"):
        membership.decode_router_message(pb2.JoinResponse())


@pytest.mark.parametrize("lease_s", [0, -3])
def test_a_lease_of_no_time_is_refused(lease_s):
    message = pb2.JoinResponse(welcome=pb2.Welcome())
    message.welcome.lease.FromSeconds(lease_s)
    with pytest.raises(BadRequestError, match=f"lease is {lease_s} s, must be > 0"):
        membership.decode_router_message(message)


@pytest.mark.parametrize("kind", [0, 3])
def test_an_event_of_an_unknown_kind_is_refused(kind):
    events = pb2.BlockEvents(sequence=1, events=[pb2.BlockEvent(kind=kind)])
    with pytest.raises(BadRequestError, match=f"event kind is {kind}, must be STORED"):
        membership.decode_node_message(pb2.JoinRequest(events=events))


def test_events_of_more_keys_than_a_router_takes_in_at_once_are_refused():
    half = block_pb2.PackedKeys(keys=bytes(16 * (membership.BATCH_KEYS_MAX // 2)), key_width=16)
    event = pb2.BlockEvent(kind=2, namespace_id=bytes(16), keys=half)
    whole = pb2.JoinRequest(events=pb2.BlockEvents(sequence=1, events=[event, event]))
    assert isinstance(membership.decode_node_message(whole), EventBatch)
    more = pb2.JoinRequest(events=pb2.BlockEvents(sequence=1, events=[event, event, event]))
    with pytest.raises(BadRequestError, match="events have 24576 keys, must be <= 16384"):
        membership.decode_node_message(more)


def test_more_keys_than_a_part_may_have_are_refused():
    part = pb2.SnapshotPart(namespace_id=bytes(16), tier=2, keys=TOO_MANY)
    message = pb2.JoinRequest(snapshot=part)
    with pytest.raises(BadRequestError, match="message has 65537 keys, must be <= 65536"):
        membership.decode_node_message(message)


def test_an_empty_inventory_names_no_namespace():
    message = pb2.JoinRequest(snapshot=pb2.SnapshotPart(is_first=True, is_last=True))
    part = SnapshotPart(b"", None, PackedKeys(b""), is_first=True, is_last=True)
    assert membership.decode_node_message(message) == part
