"""The calls of `cache_node.proto` that move prefixes between nodes. Pure."""

from hearthkv.codec import block
from hearthkv.codec.cache_node import optional_session
from hearthkv.codec.endpoint import ADDRESS_CHARS_MAX, printable
from hearthkv.core.address import check_host_port
from hearthkv.core.block_key import KEY_WIDTH_MAX, PackedKeys
from hearthkv.core.errors import BadKeysError
from hearthkv.core.namespace import check_namespace_id
from hearthkv.core.pulls import Lineage, LineageQuery, PullEnd, PullProgress, PullQuery
from hearthkv.core.routing import DrainOrder
from hearthkv.v1 import cache_node_pb2 as pb2

_PULL_END = {
    PullEnd.COMPLETE: pb2.PULL_END_COMPLETE,
    PullEnd.MISS: pb2.PULL_END_MISS,
    PullEnd.UNAVAILABLE: pb2.PULL_END_UNAVAILABLE,
    PullEnd.NO_ROOM: pb2.PULL_END_NO_ROOM,
    PullEnd.BUSY: pb2.PULL_END_BUSY,
}
_PULL_END_OF: dict[int, PullEnd] = {value: end for end, value in _PULL_END.items()}


def decode_pull_request(message: pb2.PullRequest) -> PullQuery:
    """
    Return the query.

    Raises:
        BadInputError: If it names no block, or a field is out of bounds.
    """
    keys = block.decode_keys(message.keys) if message.HasField("keys") else PackedKeys(b"")
    tip_key = message.tip_key or (keys[len(keys) - 1] if keys else b"")
    source = printable("source_address", message.source_address, ADDRESS_CHARS_MAX)
    return PullQuery(
        namespace_id=check_namespace_id(message.namespace_id),
        keys=keys,
        tip_key=_checked_width(tip_key),
        source_address=check_host_port(source) if source else "",
        session_id=optional_session(message.session_id),
        spec=block.decode_spec(message.namespace) if message.HasField("namespace") else None,
    )


def encode_pull_request(query: PullQuery) -> pb2.PullRequest:
    """Return the query as a message."""
    return pb2.PullRequest(
        namespace_id=query.namespace_id,
        keys=block.encode_keys(query.keys) if query.keys else None,
        tip_key=b"" if query.keys else query.tip_key,
        source_address=query.source_address,
        session_id=query.session_id or "",
        namespace=None if query.spec is None else block.encode_spec(query.spec),
    )


def decode_pull_response(message: pb2.PullResponse) -> PullProgress:
    """Return how far a pull has come; an end that a newer peer knows counts as unavailable."""
    end = None
    if message.end:
        end = _PULL_END_OF.get(message.end, PullEnd.UNAVAILABLE)
    return PullProgress(message.held_blocks, message.pulled_blocks, end)


def encode_pull_response(progress: PullProgress) -> pb2.PullResponse:
    """Return how far a pull has come as a message."""
    return pb2.PullResponse(
        held_blocks=progress.held_blocks,
        pulled_blocks=progress.pulled_blocks,
        end=pb2.PULL_END_UNSPECIFIED if progress.end is None else _PULL_END[progress.end],
    )


def decode_lineage_request(message: pb2.LineageRequest) -> LineageQuery:
    """Return the query; raises BadInputError."""
    return LineageQuery(check_namespace_id(message.namespace_id), _checked_width(message.tip_key))


def encode_lineage_request(query: LineageQuery) -> pb2.LineageRequest:
    """Return the query as a message."""
    return pb2.LineageRequest(namespace_id=query.namespace_id, tip_key=query.tip_key)


def decode_lineage_response(message: pb2.LineageResponse) -> Lineage:
    """Return the keys of a prefix; raises BadInputError."""
    return Lineage(
        block.decode_spec(message.namespace) if message.HasField("namespace") else None,
        block.decode_keys(message.keys) if message.HasField("keys") else PackedKeys(b""),
    )


def encode_lineage_response(lineage: Lineage) -> pb2.LineageResponse:
    """Return the keys of a prefix as a message."""
    return pb2.LineageResponse(
        namespace=None if lineage.spec is None else block.encode_spec(lineage.spec),
        keys=block.encode_keys(lineage.keys) if lineage.keys else None,
    )


def decode_drain_request(message: pb2.DrainRequest) -> DrainOrder:
    """Return the order."""
    return DrainOrder(message.is_cancelled)


def encode_drain_request(order: DrainOrder) -> pb2.DrainRequest:
    """Return the order as a message."""
    return pb2.DrainRequest(is_cancelled=order.is_cancelled)


def decode_drain_response(message: pb2.DrainResponse) -> int:
    """Return how many sessions are not handed over yet."""
    return message.sessions


def encode_drain_response(sessions: int) -> pb2.DrainResponse:
    """Return how many sessions are not handed over yet as a message."""
    return pb2.DrainResponse(sessions=sessions)


def _checked_width(tip_key: bytes) -> bytes:
    if not 1 <= len(tip_key) <= KEY_WIDTH_MAX:
        raise BadKeysError(f"tip_key is {len(tip_key)} bytes, must be in 1..{KEY_WIDTH_MAX}")
    return tip_key
