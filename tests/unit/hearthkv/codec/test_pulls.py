"""Pulls, lineages and drains: round trips, and messages that no correct peer sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.codec import pulls
from hearthkv.core.errors import BadInputError, BadKeysError, BadRequestError
from hearthkv.core.pulls import PullEnd, PullProgress
from hearthkv.v1 import block_pb2
from hearthkv.v1 import cache_node_pb2 as pb2
from tests.unit.hearthkv.codec import samples
from tests.unit.hearthkv.codec.messages import arbitrary

PAIRS = {
    "pull_request": samples.pull_queries(),
    "pull_response": samples.PULL_PROGRESS,
    "lineage_request": samples.LINEAGE_QUERY,
    "lineage_response": samples.LINEAGE,
    "drain_request": samples.DRAIN_ORDER,
    "drain_response": samples.UINT32,
}
MESSAGES = {
    "pull_request": pb2.PullRequest,
    "pull_response": pb2.PullResponse,
    "lineage_request": pb2.LineageRequest,
    "lineage_response": pb2.LineageResponse,
    "drain_request": pb2.DrainRequest,
    "drain_response": pb2.DrainResponse,
}


def test_every_decoder_is_tried_below():
    assert {name for name in dir(pulls) if name.startswith("decode_")} == {
        f"decode_{name}" for name in MESSAGES
    }


@pytest.mark.parametrize("name", PAIRS)
@given(data=st.data())
def test_what_is_encoded_decodes_to_itself(name, data):
    value = data.draw(PAIRS[name])
    message = getattr(pulls, f"encode_{name}")(value)
    parsed = MESSAGES[name].FromString(message.SerializeToString())
    assert getattr(pulls, f"decode_{name}")(parsed) == value


@pytest.mark.parametrize("name", MESSAGES)
@given(data=st.data())
def test_any_message_is_understood_or_refused(name, data):
    message = data.draw(arbitrary(MESSAGES[name]))
    try:
        getattr(pulls, f"decode_{name}")(message)
    except BadInputError as error:
        assert 0 < len(str(error)) < 2500  # noqa: PT017


@pytest.mark.parametrize(
    "address", ["node", "unix:/run/x.sock", "unix:/run/x:80", "dns:///node:80", ":80", "node:0"]
)
def test_a_pull_from_what_is_no_host_and_port_is_refused(address):
    message = pb2.PullRequest(namespace_id=bytes(16), tip_key=b"t", source_address=address)
    with pytest.raises(BadRequestError, match="must be host:port"):
        pulls.decode_pull_request(message)


def test_a_pull_of_nothing_is_refused():
    with pytest.raises(BadKeysError, match=r"tip_key is 0 bytes, must be in 1\.\.32"):
        pulls.decode_pull_request(pb2.PullRequest(namespace_id=bytes(16)))


def test_a_tip_that_is_not_the_last_key_is_refused():
    keys = block_pb2.PackedKeys(keys=b"abc", key_width=1)
    message = pb2.PullRequest(namespace_id=bytes(16), keys=keys, tip_key=b"b")
    with pytest.raises(BadRequestError, match="tip_key is not the last of keys"):
        pulls.decode_pull_request(message)


def test_an_end_of_a_newer_node_counts_as_unavailable():
    progress = pulls.decode_pull_response(pb2.PullResponse(held_blocks=3, end=99))
    assert progress == PullProgress(3, 0, PullEnd.UNAVAILABLE)
