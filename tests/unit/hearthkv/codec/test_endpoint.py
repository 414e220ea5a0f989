"""Where a node is, in both messages that say so."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.codec.endpoint import decode_endpoint
from hearthkv.core.errors import BadInputError
from hearthkv.core.routing import NodeEndpoint, NodeState
from hearthkv.v1 import membership_pb2, router_pb2
from tests.unit.hearthkv.codec.messages import arbitrary

FIELDS = {
    "node_id": "n1",
    "address": "127.0.0.1:7500",
    "engine_url": "http://127.0.0.1:8000",
    "epoch": 7,
    "weight": 2.0,
}
MESSAGE_TYPES = pytest.mark.parametrize(
    "message_type", [membership_pb2.NodeHello, router_pb2.NodeEndpoint]
)


@MESSAGE_TYPES
def test_both_messages_say_where_a_node_is(message_type):
    expected = NodeEndpoint(
        "n1", "127.0.0.1:7500", "http://127.0.0.1:8000", 7, 2.0, NodeState.SUSPECT
    )
    assert decode_endpoint(message_type(**FIELDS), NodeState.SUSPECT) == expected


@MESSAGE_TYPES
@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"weight": 0}, "weight is 0.0, must be over 0 and finite", id="weightless"),
        pytest.param({"weight": -1}, "weight is -1.0, must be", id="negative"),
        pytest.param({"weight": math.nan}, "weight is nan, must be", id="nan"),
        pytest.param({"weight": math.inf}, "weight is inf, must be", id="inf"),
        pytest.param({"node_id": "a b"}, "node_id is 'a b', must be", id="node-id"),
        pytest.param({"address": ""}, "address is empty, must be host:port", id="no-address"),
        pytest.param(
            {"address": "x" * 257}, "address is 257 characters, must be <= 256", id="long-address"
        ),
        pytest.param({"address": "a\n"}, r"address is 'a\n', must be printable", id="newline"),
        pytest.param(
            {"engine_url": "x" * 2049}, "engine_url is 2049 characters, must be", id="long-url"
        ),
    ],
)
def test_a_node_that_can_not_be_is_refused(message_type, change, text):
    with pytest.raises(BadInputError) as caught:
        decode_endpoint(message_type(**FIELDS | change), NodeState.LIVE)
    assert text in str(caught.value)


@MESSAGE_TYPES
@given(data=st.data())
def test_any_message_is_understood_or_refused(message_type, data):
    message = data.draw(arbitrary(message_type))
    try:
        decode_endpoint(message, NodeState.LIVE)
    except BadInputError as error:
        assert 0 < len(str(error)) < 2500  # noqa: PT017
