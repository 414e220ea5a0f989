"""`cache_node.proto` to core types and back. Pure."""

from collections.abc import Iterable

from hearthkv.codec import block
from hearthkv.core.block_io import (
    DropBlocks,
    DropNamespace,
    DropSession,
    DropTarget,
    KeysQuery,
    Matched,
    MatchQuery,
    NamespaceUsage,
    NodeDescription,
    Pinned,
    PinQuery,
    ReadEnd,
    ReadQuery,
    ReadStep,
    WriteStart,
    WriteStatus,
    WriteStep,
)
from hearthkv.core.errors import BadRequestError
from hearthkv.core.namespace import check_namespace_id
from hearthkv.core.session_id import SessionId, check_node_id, check_session_id
from hearthkv.core.turn_end import EndedTurn, TurnEnd
from hearthkv.v1 import cache_node_pb2 as pb2

READ_END = {
    ReadEnd.COMPLETE: pb2.READ_END_COMPLETE,
    ReadEnd.MISS: pb2.READ_END_MISS,
    ReadEnd.LOST: pb2.READ_END_LOST,
    ReadEnd.UNAVAILABLE: pb2.READ_END_UNAVAILABLE,
}
READ_END_OF = {value: end for end, value in READ_END.items()}

WRITE_STATUS = {
    WriteStatus.STORED: pb2.WRITE_STATUS_STORED,
    WriteStatus.ALREADY_HELD: pb2.WRITE_STATUS_ALREADY_HELD,
    WriteStatus.PARENT_MISSING: pb2.WRITE_STATUS_PARENT_MISSING,
    WriteStatus.NO_ROOM: pb2.WRITE_STATUS_NO_ROOM,
    WriteStatus.CORRUPT: pb2.WRITE_STATUS_CORRUPT,
    WriteStatus.UNAVAILABLE: pb2.WRITE_STATUS_UNAVAILABLE,
}
_TURN_END = {
    TurnEnd.UNKNOWN: pb2.TURN_END_UNSPECIFIED,
    TurnEnd.TOOL_CALL: pb2.TURN_END_TOOL_CALL,
    TurnEnd.ANSWER: pb2.TURN_END_ANSWER,
    TurnEnd.FINAL: pb2.TURN_END_FINAL,
}
_TURN_END_OF: dict[int, TurnEnd] = {value: end for end, value in _TURN_END.items()}
_WRITE_STATUS_OF: dict[int, WriteStatus] = {value: status for status, value in WRITE_STATUS.items()}


def decode_match_request(message: pb2.MatchRequest) -> MatchQuery:
    """Return the query; raises BadInputError."""
    return MatchQuery(
        check_namespace_id(message.namespace_id),
        block.decode_keys(message.keys),
        optional_session(message.session_id),
    )


def encode_match_request(query: MatchQuery) -> pb2.MatchRequest:
    """Return the query as a message."""
    return pb2.MatchRequest(
        namespace_id=query.namespace_id,
        keys=block.encode_keys(query.keys),
        session_id=query.session_id or "",
    )


def encode_match_response(matched: Matched) -> pb2.MatchResponse:
    """Return the match as a message."""
    return pb2.MatchResponse(
        matched_blocks=matched.by_tier.total,
        matched_by_tier=block.encode_counts(matched.by_tier),
        arriving_blocks=matched.arriving_blocks,
    )


def decode_match_response(message: pb2.MatchResponse) -> Matched:
    """Return the match; raises BadInputError. An older node knows of nothing that arrives."""
    by_tier = block.decode_counts(message.matched_by_tier)
    return Matched(by_tier, max(by_tier.total, message.arriving_blocks))


def decode_read_request(message: pb2.ReadRequest) -> ReadQuery:
    """Return the query; raises BadInputError."""
    return ReadQuery(
        check_namespace_id(message.namespace_id),
        block.decode_keys(message.keys),
        message.first_block,
        optional_session(message.session_id),
        message.takes_chunks,
    )


def encode_read_request(query: ReadQuery) -> pb2.ReadRequest:
    """Return the query as a message."""
    return pb2.ReadRequest(
        namespace_id=query.namespace_id,
        keys=block.encode_keys(query.keys),
        first_block=query.first_block,
        session_id=query.session_id or "",
        takes_chunks=query.takes_chunks,
    )


def encode_read_step(step: ReadStep) -> pb2.ReadResponse:
    """Return one step of a read as a message."""
    if isinstance(step, ReadEnd):
        return pb2.ReadResponse(end=READ_END[step])
    if len(step) == 1:
        return pb2.ReadResponse(chunk=block.encode_chunk(step[0]))
    return pb2.ReadResponse(chunks=block.encode_chunks(step))


def decode_read_step(message: pb2.ReadResponse) -> ReadStep:
    """
    Return one step of a read.

    Raises:
        BadInputError: If the message is empty, or its chunks or its end can't be understood.
    """
    kind = message.WhichOneof("step")
    if kind == "chunk":
        return (block.decode_chunk(message.chunk),)
    if kind == "chunks":
        return block.decode_chunks(message.chunks)
    if kind == "end" and message.end in READ_END_OF:
        return READ_END_OF[message.end]
    raise BadRequestError(f"read step is {kind!r} ({message.end}), must be a chunk or a known end")


def decode_write_step(message: pb2.WriteRequest) -> WriteStep:
    """
    Return one step of a write.

    Raises:
        BadInputError: If the message is empty or a field is out of bounds.
    """
    kind = message.WhichOneof("step")
    if kind == "start":
        return decode_write_start(message.start)
    if kind == "chunk":
        return (block.decode_chunk(message.chunk),)
    if kind == "chunks":
        return block.decode_chunks(message.chunks)
    raise BadRequestError("write step is empty, must be a start or a chunk")


def encode_write_step(step: WriteStep) -> pb2.WriteRequest:
    """Return one step of a write as a message."""
    if isinstance(step, WriteStart):
        return pb2.WriteRequest(start=encode_write_start(step))
    if len(step) == 1:
        return pb2.WriteRequest(chunk=block.encode_chunk(step[0]))
    return pb2.WriteRequest(chunks=block.encode_chunks(step))


def decode_write_start(message: pb2.WriteStart) -> WriteStart:
    """Return the opening of a write; raises BadInputError."""
    return WriteStart(block.decode_spec(message.namespace), optional_session(message.session_id))


def encode_write_start(start: WriteStart) -> pb2.WriteStart:
    """Return the opening of a write as a message."""
    return pb2.WriteStart(
        namespace=block.encode_spec(start.spec), session_id=start.session_id or ""
    )


def encode_write_response(statuses: Iterable[WriteStatus]) -> pb2.WriteResponse:
    """Return what became of the blocks as a message."""
    return pb2.WriteResponse(
        statuses=[WRITE_STATUS[status] for status in statuses], takes_chunks=True
    )


def decode_write_response(message: pb2.WriteResponse) -> list[WriteStatus]:
    """Return what became of the blocks; a status of a newer peer counts as unavailable."""
    return [write_status_of(value) for value in message.statuses]


def write_status_of(value: int) -> WriteStatus:
    """Return the status of a message's number; one of a newer peer counts as unavailable."""
    return _WRITE_STATUS_OF.get(value, WriteStatus.UNAVAILABLE)


def decode_prefetch_request(message: pb2.PrefetchRequest) -> KeysQuery:
    """Return the query; raises BadInputError."""
    return KeysQuery(check_namespace_id(message.namespace_id), block.decode_keys(message.keys))


def encode_prefetch_request(query: KeysQuery) -> pb2.PrefetchRequest:
    """Return the query as a message."""
    return pb2.PrefetchRequest(namespace_id=query.namespace_id, keys=block.encode_keys(query.keys))


def decode_prefetch_response(message: pb2.PrefetchResponse) -> int:
    """Return how many blocks are queued."""
    return message.queued_blocks


def decode_pin_request(message: pb2.PinRequest) -> PinQuery:
    """
    Return the query.

    Raises:
        BadInputError: If the keys are malformed or the time is not in (0, one hour].
    """
    return PinQuery(
        check_namespace_id(message.namespace_id),
        block.decode_keys(message.keys),
        message.ttl.ToNanoseconds() / 1e9,
    )


def encode_pin_request(query: PinQuery) -> pb2.PinRequest:
    """Return the query as a message."""
    message = pb2.PinRequest(namespace_id=query.namespace_id, keys=block.encode_keys(query.keys))
    message.ttl.FromNanoseconds(round(query.ttl_s * 1e9))
    return message


def encode_pin_response(pinned: Pinned) -> pb2.PinResponse:
    """Return a pin as a message."""
    return pb2.PinResponse(pin_id=pinned.pin_id, pinned_blocks=pinned.blocks)


def decode_pin_response(message: pb2.PinResponse) -> Pinned:
    """Return a pin."""
    return Pinned(message.pin_id, message.pinned_blocks)


def encode_unpin_request(pin_id: str) -> pb2.UnpinRequest:
    """Return the pin that ends as a message."""
    return pb2.UnpinRequest(pin_id=pin_id)


def decode_unpin_response(message: pb2.UnpinResponse) -> int:
    """Return how many blocks were released."""
    return message.unpinned_blocks


def decode_end_turn_request(message: pb2.EndTurnRequest) -> EndedTurn:
    """
    Return the turn that is over; an end that a newer peer knows counts as unknown.

    Raises:
        BadInputError: If the session's name or the time can't be.
    """
    return EndedTurn(
        check_session_id(message.session_id),
        _TURN_END_OF.get(message.end, TurnEnd.UNKNOWN),
        message.returns_in.ToNanoseconds() / 1e9 if message.HasField("returns_in") else None,
    )


def encode_end_turn_request(turn: EndedTurn) -> pb2.EndTurnRequest:
    """Return the turn that is over as a message."""
    message = pb2.EndTurnRequest(session_id=turn.session_id, end=_TURN_END[turn.end])
    if turn.returns_in_s is not None:
        message.returns_in.FromNanoseconds(round(turn.returns_in_s * 1e9))
    return message


def decode_end_turn_response(message: pb2.EndTurnResponse) -> int:
    """Return how many blocks are lifted now."""
    return message.queued_blocks


def decode_drop_request(message: pb2.DropRequest) -> DropTarget:
    """
    Return what to forget.

    Raises:
        BadInputError: If nothing is named, or a field is out of bounds.
    """
    kind = message.WhichOneof("target")
    if kind == "blocks":
        return DropBlocks(
            check_namespace_id(message.blocks.namespace_id), block.decode_keys(message.blocks.keys)
        )
    if kind == "session":
        return DropSession(check_session_id(message.session.session_id))
    if kind == "namespace_id":
        return DropNamespace(check_namespace_id(message.namespace_id))
    raise BadRequestError("drop names nothing, must name blocks, a session or a namespace")


def encode_drop_request(target: DropTarget) -> pb2.DropRequest:
    """Return what to forget as a message."""
    if isinstance(target, DropBlocks):
        blocks = pb2.NamespaceBlocks(
            namespace_id=target.namespace_id, keys=block.encode_keys(target.keys)
        )
        return pb2.DropRequest(blocks=blocks)
    if isinstance(target, DropSession):
        return pb2.DropRequest(session=pb2.SessionBlocks(session_id=target.session_id))
    return pb2.DropRequest(namespace_id=target.namespace_id)


def decode_drop_response(message: pb2.DropResponse) -> int:
    """Return how many blocks were forgotten."""
    return message.dropped_blocks


def encode_describe_request() -> pb2.DescribeRequest:
    """Return the wish for a node's description as a message."""
    return pb2.DescribeRequest()


def encode_describe_response(description: NodeDescription) -> pb2.DescribeResponse:
    """Return a node's description as a message."""
    return pb2.DescribeResponse(
        node_id=description.node_id,
        epoch=description.epoch,
        tiers=[block.encode_usage(usage) for usage in description.tiers],
        namespaces=[
            pb2.NamespaceUsage(namespace=block.encode_spec(usage.spec), blocks=usage.blocks)
            for usage in description.namespaces
        ],
        pins=description.pins,
        version=description.version,
        is_draining=description.is_draining,
    )


def decode_describe_response(message: pb2.DescribeResponse) -> NodeDescription:
    """Return a node's description; raises BadInputError."""
    return NodeDescription(
        node_id=check_node_id(message.node_id),
        epoch=message.epoch,
        tiers=tuple(block.decode_usage(usage) for usage in message.tiers),
        namespaces=tuple(
            NamespaceUsage(block.decode_spec(usage.namespace), usage.blocks)
            for usage in message.namespaces
        ),
        pins=message.pins,
        version=message.version,
        is_draining=message.is_draining,
    )


def optional_session(text: str) -> SessionId | None:
    """Return the session that a message names, None where it names none; raises BadInputError."""
    return check_session_id(text) if text else None
