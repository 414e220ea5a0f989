"""`router.proto`: round trips, and messages that no correct peer sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.codec import router
from hearthkv.core.errors import BadInputError, BadKeysError, BadRequestError
from hearthkv.core.routing import CacheHint, NodeState, PlacementReason
from hearthkv.core.session_id import NodeId
from hearthkv.v1 import block_pb2
from hearthkv.v1 import router_pb2 as pb2
from tests.unit.hearthkv.codec import samples
from tests.unit.hearthkv.codec.messages import arbitrary

PAIRS = {
    "endpoint": samples.ENDPOINT,
    "route_request": samples.ROUTE_QUERY,
    "route_response": samples.ROUTE.filter(lambda route: route.matched.total < 2**32),
    "lookup_request": samples.KEYS_QUERY,
    "lookup_response": st.lists(
        samples.NODE_MATCH.filter(lambda match: match.matched.total < 2**32), max_size=3
    ),
    "list_nodes_response": st.lists(samples.NODE_STATUS, max_size=3),
}
MESSAGES = {
    "endpoint": pb2.NodeEndpoint,
    "route_request": pb2.RouteRequest,
    "route_response": pb2.RouteResponse,
    "lookup_request": pb2.LookupRequest,
    "lookup_response": pb2.LookupResponse,
    "end_session_request": pb2.EndSessionRequest,
    "end_session_response": pb2.EndSessionResponse,
    "watch_response": pb2.WatchNodesResponse,
    "list_nodes_response": pb2.ListNodesResponse,
    "drain_node_request": pb2.DrainNodeRequest,
    "list_sessions_request": pb2.ListSessionsRequest,
    "list_sessions_response": pb2.ListSessionsResponse,
}


def test_every_decoder_is_tried_below():
    decoders = {name.removeprefix("decode_") for name in dir(router) if "decode_" in name}
    assert decoders == set(MESSAGES)


@pytest.mark.parametrize("name", PAIRS)
@given(data=st.data())
def test_what_is_encoded_decodes_to_itself(name, data):
    value = data.draw(PAIRS[name])
    message = getattr(router, f"encode_{name}")(value)
    parsed = MESSAGES[name].FromString(message.SerializeToString())
    assert getattr(router, f"decode_{name}")(parsed) == value


@given(st.lists(samples.ENDPOINT, max_size=3))
def test_a_list_of_nodes_decodes_to_itself(nodes):
    assert router.decode_watch_response(router.encode_watch_response(9, nodes)) == nodes


@given(st.lists(samples.SESSION_STATUS, max_size=3))
def test_a_list_of_sessions_decodes_to_itself(sessions):
    message = router.encode_list_sessions_response(sessions, 7)
    assert message.sessions_total == 7
    assert router.decode_list_sessions_response(message) == sessions


@pytest.mark.parametrize("name", MESSAGES)
@given(data=st.data())
def test_any_message_is_understood_or_refused(name, data):
    message = data.draw(arbitrary(MESSAGES[name]))
    try:
        getattr(router, f"decode_{name}")(message)
    except BadInputError as error:
        assert 0 < len(str(error)) < 2500  # noqa: PT017


def route_request(**fields):
    return pb2.RouteRequest(
        **{
            "session_id": "s",
            "namespace_id": bytes(16),
            "keys": block_pb2.PackedKeys(key_width=16),
            "block_size": 16,
        }
        | fields
    )


def test_a_turn_without_a_hint_has_the_hint_none():
    assert router.decode_route_request(route_request()).hint is CacheHint.NONE


def test_an_unknown_hint_is_refused():
    with pytest.raises(BadRequestError, match="cache_hint is 9, must be one of NONE, REUSE, BYP"):
        router.decode_route_request(route_request(cache_hint=9))


@pytest.mark.parametrize("block_size", [0, 65_537])
def test_an_impossible_block_size_is_refused(block_size):
    with pytest.raises(BadRequestError, match=rf"block_size is {block_size}, must be in 1\.\."):
        router.decode_route_request(route_request(block_size=block_size))


def test_what_a_newer_router_says_is_taken_with_care():
    node = pb2.NodeEndpoint(node_id="n", address="a:1", weight=1, state=9)
    message = pb2.RouteResponse(node=node, home_node_id="n", reason=9)
    route = router.decode_route_response(message)
    assert (route.reason, route.node.state) == (PlacementReason.OTHER, NodeState.SUSPECT)


@pytest.mark.parametrize(("limit", "expected"), [(0, 100), (1, 1), (1000, 1000)])
def test_a_list_of_sessions_has_a_usual_length(limit, expected):
    request = pb2.ListSessionsRequest(limit=limit)
    assert router.decode_list_sessions_request(request) == expected


def test_a_longer_list_of_sessions_is_refused():
    with pytest.raises(BadRequestError, match="limit is 1001, must be <= 1000"):
        router.decode_list_sessions_request(pb2.ListSessionsRequest(limit=1001))


@given(samples.SESSION_ID)
def test_the_session_that_ends_is_named(session_id):
    request = router.encode_end_session_request(session_id)
    assert router.decode_end_session_request(request) == session_id


@pytest.mark.parametrize(("sent", "expected"), [("", None), ("n1", "n1")])
def test_a_session_that_was_not_known_had_no_node(sent, expected):
    assert router.decode_end_session_response(pb2.EndSessionResponse(node_id=sent)) == expected


def test_requests_carry_what_they_are_given():
    assert router.encode_list_sessions_request(7).limit == 7
    assert router.encode_list_nodes_request() == pb2.ListNodesRequest()
    assert router.encode_watch_request() == pb2.WatchNodesRequest()


def test_keys_without_positions_are_all_keys_of_the_prompt():
    keys = block_pb2.PackedKeys(keys=bytes(48), key_width=16)
    query = router.decode_route_request(route_request(keys=keys))
    assert (query.keys.blocks, list(query.keys.positions)) == (3, [1, 2, 3])


@pytest.mark.parametrize(
    ("positions", "text"),
    [
        ([1], "2 keys have 1 positions, must be one each"),
        ([0, 1], "first key position is 0, must be >= 1"),
        ([7, 6], "key positions descend, none must be below the one before"),
    ],
)
def test_positions_that_fit_no_prompt_are_refused(positions, text):
    keys = block_pb2.PackedKeys(keys=bytes(32), key_width=16)
    with pytest.raises(BadKeysError, match=text):
        router.decode_route_request(route_request(keys=keys, key_positions=positions))


def test_a_wish_that_a_node_leave_decodes_to_itself():
    message = router.encode_drain_node_request(NodeId("n"), is_cancelled=True)
    assert router.decode_drain_node_request(message) == ("n", True)
