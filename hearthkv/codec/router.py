"""`router.proto` to core types and back. Pure."""

from collections.abc import Sequence
from functools import lru_cache

from hearthkv.codec import block, endpoint
from hearthkv.core.block_io import KeysQuery
from hearthkv.core.block_key import SampledKeys
from hearthkv.core.errors import BadRequestError
from hearthkv.core.namespace import BLOCK_SIZE_MAX, check_namespace_id
from hearthkv.core.routing import (
    CacheHint,
    NodeEndpoint,
    NodeLoad,
    NodeMatch,
    NodeState,
    NodeStatus,
    PlacementReason,
    PullSource,
    Route,
    RouteQuery,
    SessionStatus,
)
from hearthkv.core.session_id import NodeId, SessionId, check_node_id, check_session_id
from hearthkv.v1 import router_pb2 as pb2

SESSIONS_LISTED = 100
SESSIONS_LISTED_MAX = 1000
ENDPOINTS_KEPT = 4096
"""Nodes whose messages are kept: to make one takes half as long as to answer a `Route`."""

_HINT = {
    CacheHint.NONE: pb2.CACHE_HINT_NONE,
    CacheHint.REUSE: pb2.CACHE_HINT_REUSE,
    CacheHint.BYPASS: pb2.CACHE_HINT_BYPASS,
}
_HINT_OF = {value: hint for hint, value in _HINT.items()} | {
    pb2.CACHE_HINT_UNSPECIFIED: CacheHint.NONE
}
_REASON = {
    PlacementReason.SESSION: pb2.PLACEMENT_REASON_SESSION,
    PlacementReason.HOME: pb2.PLACEMENT_REASON_HOME,
    PlacementReason.PREFIX: pb2.PLACEMENT_REASON_PREFIX,
    PlacementReason.FAILOVER: pb2.PLACEMENT_REASON_FAILOVER,
    PlacementReason.SPILL: pb2.PLACEMENT_REASON_SPILL,
    PlacementReason.DRAIN: pb2.PLACEMENT_REASON_DRAIN,
    PlacementReason.OTHER: pb2.PLACEMENT_REASON_UNSPECIFIED,
}
_REASON_OF = {value: reason for reason, value in _REASON.items()}
_STATE = {
    NodeState.LIVE: pb2.NODE_STATE_LIVE,
    NodeState.SUSPECT: pb2.NODE_STATE_SUSPECT,
    NodeState.DRAINING: pb2.NODE_STATE_DRAINING,
}
_STATE_OF = {value: state for state, value in _STATE.items()}


def decode_endpoint(message: pb2.NodeEndpoint) -> NodeEndpoint:
    """
    Return where a node is. A state of a newer peer counts as suspect.

    Raises:
        BadInputError: See `endpoint.decode_endpoint`.
    """
    return endpoint.decode_endpoint(message, _STATE_OF.get(message.state, NodeState.SUSPECT))


def encode_endpoint(node: NodeEndpoint) -> pb2.NodeEndpoint:
    """Return where a node is as a message."""
    return pb2.NodeEndpoint(
        node_id=node.node_id,
        address=node.address,
        engine_url=node.engine_url,
        epoch=node.epoch,
        weight=node.weight,
        state=_STATE[node.state],
    )


@lru_cache(ENDPOINTS_KEPT)
def _kept_endpoint(node: NodeEndpoint) -> pb2.NodeEndpoint:
    """Return where a node is as a message that is not to be changed: to be put into another."""
    return encode_endpoint(node)


def decode_route_request(message: pb2.RouteRequest) -> RouteQuery:
    """
    Return the turn that wants a node.

    Raises:
        BadInputError: If an id, the keys or the hint can't be used.
    """
    if message.cache_hint not in _HINT_OF:
        names = ", ".join(hint.name for hint in CacheHint)
        raise BadRequestError(f"cache_hint is {message.cache_hint}, must be one of {names}")
    return RouteQuery(
        session_id=check_session_id(message.session_id),
        namespace_id=check_namespace_id(message.namespace_id),
        keys=_sampled_keys(message),
        hint=_HINT_OF[message.cache_hint],
        prompt_tokens=message.prompt_tokens,
        block_size=_checked_block_size(message.block_size),
        settled_blocks=message.settled_blocks,
    )


def encode_route_request(query: RouteQuery) -> pb2.RouteRequest:
    """Return a turn that wants a node as a message."""
    positions = query.keys.positions
    return pb2.RouteRequest(
        session_id=query.session_id,
        namespace_id=query.namespace_id,
        keys=block.encode_keys(query.keys.keys),
        key_positions=() if isinstance(positions, range) else positions,
        cache_hint=_HINT[query.hint],
        prompt_tokens=query.prompt_tokens,
        block_size=query.block_size,
        settled_blocks=query.settled_blocks,
    )


def encode_route_response(route: Route) -> pb2.RouteResponse:
    """Return the node for a turn as a message."""
    return pb2.RouteResponse(
        node=_kept_endpoint(route.node),
        matched_blocks=route.matched.total,
        matched_by_tier=block.encode_counts(route.matched),
        home_node_id=route.home_node_id,
        reason=_REASON[route.reason],
        pull_from=[
            pb2.PullSource(node=encode_endpoint(source.node), blocks=source.blocks)
            for source in route.pull_from
        ],
    )


def decode_route_response(message: pb2.RouteResponse) -> Route:
    """
    Return the node for a turn. A reason of a newer router counts as `OTHER`.

    Raises:
        BadInputError: If the node can't be understood.
    """
    return Route(
        node=decode_endpoint(message.node),
        matched=block.decode_counts(message.matched_by_tier),
        home_node_id=check_node_id(message.home_node_id),
        reason=_REASON_OF.get(message.reason, PlacementReason.OTHER),
        pull_from=tuple(
            PullSource(decode_endpoint(source.node), source.blocks) for source in message.pull_from
        ),
    )


def decode_lookup_request(message: pb2.LookupRequest) -> KeysQuery:
    """Return the query; raises BadInputError."""
    return KeysQuery(check_namespace_id(message.namespace_id), block.decode_keys(message.keys))


def encode_lookup_request(query: KeysQuery) -> pb2.LookupRequest:
    """Return the query as a message."""
    return pb2.LookupRequest(namespace_id=query.namespace_id, keys=block.encode_keys(query.keys))


def encode_lookup_response(matches: Sequence[NodeMatch]) -> pb2.LookupResponse:
    """Return who holds how much as a message."""
    return pb2.LookupResponse(
        matches=[
            pb2.NodeMatch(
                node_id=match.node_id,
                matched_blocks=match.matched.total,
                matched_by_tier=block.encode_counts(match.matched),
            )
            for match in matches
        ]
    )


def decode_lookup_response(message: pb2.LookupResponse) -> list[NodeMatch]:
    """Return who holds how much; raises BadInputError."""
    return [
        NodeMatch(check_node_id(match.node_id), block.decode_counts(match.matched_by_tier))
        for match in message.matches
    ]


def decode_end_session_request(message: pb2.EndSessionRequest) -> SessionId:
    """Return the session; raises BadSessionIdError."""
    return check_session_id(message.session_id)


def encode_end_session_request(session_id: SessionId) -> pb2.EndSessionRequest:
    """Return the session that ends as a message."""
    return pb2.EndSessionRequest(session_id=session_id)


def decode_end_session_response(message: pb2.EndSessionResponse) -> NodeId | None:
    """
    Return the node of the session's last turn; None where the session was not known.

    Raises:
        BadInputError: If the node's id is malformed.
    """
    return check_node_id(message.node_id) if message.node_id else None


def encode_watch_request() -> pb2.WatchNodesRequest:
    """Return the wish for the list of nodes as a message."""
    return pb2.WatchNodesRequest()


def encode_watch_response(version: int, nodes: Sequence[NodeEndpoint]) -> pb2.WatchNodesResponse:
    """Return the list of nodes as a message."""
    return pb2.WatchNodesResponse(version=version, nodes=[encode_endpoint(node) for node in nodes])


def decode_watch_response(message: pb2.WatchNodesResponse) -> list[NodeEndpoint]:
    """Return the list of nodes; raises BadInputError."""
    return [decode_endpoint(node) for node in message.nodes]


def encode_list_nodes_request() -> pb2.ListNodesRequest:
    """Return the wish for the nodes and their load as a message."""
    return pb2.ListNodesRequest()


def encode_list_nodes_response(nodes: Sequence[NodeStatus]) -> pb2.ListNodesResponse:
    """Return the nodes and their load as a message."""
    response = pb2.ListNodesResponse()
    for node in nodes:
        status = response.nodes.add(
            endpoint=encode_endpoint(node.endpoint),
            tiers=[block.encode_usage(usage) for usage in node.load.tiers],
            calls_in_flight=node.load.calls_in_flight,
            indexed_blocks=node.indexed_blocks,
            sessions=node.sessions,
            uncached_tokens=node.uncached_tokens,
        )
        status.silence.FromNanoseconds(round(node.silence_s * 1e9))
    return response


def decode_list_nodes_response(message: pb2.ListNodesResponse) -> list[NodeStatus]:
    """Return the nodes and their load; raises BadInputError."""
    return [
        NodeStatus(
            endpoint=decode_endpoint(node.endpoint),
            load=NodeLoad(
                tiers=tuple(block.decode_usage(usage) for usage in node.tiers),
                calls_in_flight=node.calls_in_flight,
            ),
            indexed_blocks=node.indexed_blocks,
            sessions=node.sessions,
            silence_s=node.silence.ToNanoseconds() / 1e9,
            uncached_tokens=node.uncached_tokens,
        )
        for node in message.nodes
    ]


def encode_drain_node_request(node_id: NodeId, *, is_cancelled: bool) -> pb2.DrainNodeRequest:
    """Return the wish that a node leave, or stay after all, as a message."""
    return pb2.DrainNodeRequest(node_id=node_id, is_cancelled=is_cancelled)


def decode_drain_node_request(message: pb2.DrainNodeRequest) -> tuple[NodeId, bool]:
    """Return the node, and whether it shall stay after all; raises BadInputError."""
    return check_node_id(message.node_id), message.is_cancelled


def encode_list_sessions_request(limit: int) -> pb2.ListSessionsRequest:
    """Return how many sessions to list as a message."""
    return pb2.ListSessionsRequest(limit=limit)


def decode_list_sessions_request(message: pb2.ListSessionsRequest) -> int:
    """
    Return how many sessions to list.

    Raises:
        BadRequestError: If more are asked for than may be.
    """
    if message.limit > SESSIONS_LISTED_MAX:
        raise BadRequestError(f"limit is {message.limit}, must be <= {SESSIONS_LISTED_MAX}")
    return message.limit or SESSIONS_LISTED


def encode_list_sessions_response(
    sessions: Sequence[SessionStatus], sessions_total: int
) -> pb2.ListSessionsResponse:
    """Return sessions as a message."""
    response = pb2.ListSessionsResponse(sessions_total=sessions_total)
    for session in sessions:
        status = response.sessions.add(
            session_id=session.session_id,
            node_id=session.node_id,
            turns=session.turns,
            prompt_tokens=session.prompt_tokens,
            matched_blocks=session.matched_blocks,
        )
        status.idle.FromNanoseconds(round(session.idle_s * 1e9))
    return response


def decode_list_sessions_response(message: pb2.ListSessionsResponse) -> list[SessionStatus]:
    """Return sessions, most recent first; raises BadInputError."""
    return [
        SessionStatus(
            session_id=check_session_id(session.session_id),
            node_id=check_node_id(session.node_id),
            turns=session.turns,
            prompt_tokens=session.prompt_tokens,
            matched_blocks=session.matched_blocks,
            idle_s=session.idle.ToNanoseconds() / 1e9,
        )
        for session in message.sessions
    ]


def _sampled_keys(message: pb2.RouteRequest) -> SampledKeys:
    keys = block.decode_keys(message.keys)
    if not message.key_positions:
        return SampledKeys.all_of(keys)
    # A slice is copied at once, and items one by one take twice as long.
    return SampledKeys(keys, tuple(message.key_positions[:]))


def _checked_block_size(block_size: int) -> int:
    if not 1 <= block_size <= BLOCK_SIZE_MAX:
        raise BadRequestError(f"block_size is {block_size}, must be in 1..{BLOCK_SIZE_MAX}")
    return block_size
