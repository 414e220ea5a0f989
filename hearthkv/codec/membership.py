"""`membership.proto` to core types and back. Pure."""

from hearthkv.codec import block
from hearthkv.codec.cache_node import optional_session
from hearthkv.codec.endpoint import ADDRESS_CHARS_MAX, decode_endpoint, printable
from hearthkv.core.block_key import KEY_WIDTH_MAX, PackedKeys
from hearthkv.core.errors import BadKeysError, BadRequestError
from hearthkv.core.namespace import check_namespace_id
from hearthkv.core.routing import (
    BlockEvent,
    DrainOrder,
    EventBatch,
    EventsAck,
    NodeHello,
    NodeLoad,
    NodeMessage,
    NodeState,
    PrefetchOrder,
    PullOrder,
    ResyncOrder,
    RouterMessage,
    SessionMoved,
    SnapshotPart,
    Welcome,
)
from hearthkv.core.session_id import check_node_id, check_session_id
from hearthkv.v1 import membership_pb2 as pb2

SNAPSHOT_KEYS_MAX = 65_536
"""Keys in one part of a snapshot."""

BATCH_KEYS_MAX = 16_384
"""Keys in one message of events: a router takes them in at once."""


def decode_node_message(message: pb2.JoinRequest) -> NodeMessage:
    """
    Return what a node says.

    Raises:
        BadInputError: If the message is empty or a field is out of bounds.
    """
    kind = message.WhichOneof("message")
    if kind == "hello":
        return _decode_hello(message.hello)
    if kind == "snapshot":
        return _decode_snapshot(message.snapshot)
    if kind == "events":
        return _decode_events(message.events)
    if kind == "heartbeat":
        beat = message.heartbeat
        tiers = tuple(block.decode_usage(usage) for usage in beat.tiers)
        return NodeLoad(
            beat.sequence, tiers, beat.calls_in_flight, beat.uncached_tokens, beat.is_draining
        )
    if kind == "moved":
        moved = message.moved
        return SessionMoved(check_session_id(moved.session_id), check_node_id(moved.node_id))
    raise BadRequestError(
        "join message is empty, must be a hello, snapshot, events, heartbeat or moved"
    )


def encode_node_message(said: NodeMessage) -> pb2.JoinRequest:
    """Return what a node says as a message."""
    if isinstance(said, NodeHello):
        return pb2.JoinRequest(hello=_encode_hello(said))
    if isinstance(said, SnapshotPart):
        return pb2.JoinRequest(snapshot=_encode_snapshot(said))
    if isinstance(said, EventBatch):
        events = [_encode_event(event) for event in said.events]
        return pb2.JoinRequest(events=pb2.BlockEvents(sequence=said.sequence, events=events))
    if isinstance(said, SessionMoved):
        moved = pb2.SessionMoved(session_id=said.session_id, node_id=said.node_id)
        return pb2.JoinRequest(moved=moved)
    heartbeat = pb2.Heartbeat(
        sequence=said.sequence,
        tiers=[block.encode_usage(usage) for usage in said.tiers],
        calls_in_flight=said.calls_in_flight,
        uncached_tokens=said.uncached_tokens,
        is_draining=said.is_draining,
    )
    return pb2.JoinRequest(heartbeat=heartbeat)


def decode_router_message(message: pb2.JoinResponse) -> RouterMessage:
    """
    Return what a router says.

    Raises:
        BadInputError: If the message is empty or a field is out of bounds.
    """
    kind = message.WhichOneof("message")
    if kind == "welcome":
        lease_s = message.welcome.lease.ToNanoseconds() / 1e9
        if not lease_s > 0:
            raise BadRequestError(f"lease is {lease_s:g} s, must be > 0")
        return Welcome(lease_s)
    if kind == "ack":
        return EventsAck(message.ack.sequence)
    if kind == "resync":
        return ResyncOrder(message.resync.expected_sequence, message.resync.received_sequence)
    if kind == "prefetch":
        order = message.prefetch
        return PrefetchOrder(check_namespace_id(order.namespace_id), _checked_key(order.tip_key))
    if kind == "pull":
        return _decode_pull(message.pull)
    if kind == "drain":
        return DrainOrder(message.drain.is_cancelled)
    raise BadRequestError(
        "join answer is empty, must be a welcome, ack, resync, prefetch, pull or drain"
    )


def encode_router_message(said: RouterMessage) -> pb2.JoinResponse:
    """Return what a router says as a message."""
    if isinstance(said, Welcome):
        message = pb2.JoinResponse(welcome=pb2.Welcome())
        message.welcome.lease.FromNanoseconds(round(said.lease_s * 1e9))
        return message
    if isinstance(said, EventsAck):
        return pb2.JoinResponse(ack=pb2.EventsAck(sequence=said.sequence))
    if isinstance(said, ResyncOrder):
        resync = pb2.ResyncOrder(
            expected_sequence=said.expected_sequence, received_sequence=said.received_sequence
        )
        return pb2.JoinResponse(resync=resync)
    if isinstance(said, PullOrder):
        return pb2.JoinResponse(pull=_encode_pull(said))
    if isinstance(said, DrainOrder):
        return pb2.JoinResponse(drain=pb2.DrainOrder(is_cancelled=said.is_cancelled))
    order = pb2.PrefetchOrder(namespace_id=said.namespace_id, tip_key=said.tip_key)
    return pb2.JoinResponse(prefetch=order)


def _decode_hello(hello: pb2.NodeHello) -> NodeHello:
    return NodeHello(decode_endpoint(hello, NodeState.LIVE), hello.version)


def _encode_hello(hello: NodeHello) -> pb2.NodeHello:
    endpoint = hello.endpoint
    return pb2.NodeHello(
        node_id=endpoint.node_id,
        address=endpoint.address,
        engine_url=endpoint.engine_url,
        epoch=endpoint.epoch,
        weight=endpoint.weight,
        version=hello.version,
    )


def _decode_snapshot(part: pb2.SnapshotPart) -> SnapshotPart:
    keys = _bounded(block.decode_keys(part.keys)) if part.HasField("keys") else PackedKeys(b"")
    if not keys:
        return SnapshotPart(b"", None, keys, part.is_first, part.is_last)
    return SnapshotPart(
        check_namespace_id(part.namespace_id),
        block.decode_tier(part.tier),
        keys,
        part.is_first,
        part.is_last,
    )


def _encode_snapshot(part: SnapshotPart) -> pb2.SnapshotPart:
    message = pb2.SnapshotPart(
        namespace_id=part.namespace_id, is_first=part.is_first, is_last=part.is_last
    )
    if part.tier is not None:
        message.tier = block.encode_tier(part.tier)
        message.keys.CopyFrom(block.encode_keys(part.keys))
    return message


def _decode_events(message: pb2.BlockEvents) -> EventBatch:
    events = tuple(_decode_event(event) for event in message.events)
    keys = sum(len(event.keys) for event in events)
    if keys > BATCH_KEYS_MAX:
        raise BadRequestError(f"events have {keys} keys, must be <= {BATCH_KEYS_MAX}")
    return EventBatch(message.sequence, events)


def _decode_event(event: pb2.BlockEvent) -> BlockEvent:
    if event.kind == pb2.BLOCK_EVENT_KIND_STORED:
        tier = block.decode_tier(event.tier)
    elif event.kind == pb2.BLOCK_EVENT_KIND_REMOVED:
        tier = None
    else:
        raise BadRequestError(f"event kind is {event.kind}, must be STORED (1) or REMOVED (2)")
    return BlockEvent(check_namespace_id(event.namespace_id), block.decode_keys(event.keys), tier)


def _encode_event(event: BlockEvent) -> pb2.BlockEvent:
    message = pb2.BlockEvent(
        kind=pb2.BLOCK_EVENT_KIND_REMOVED,
        namespace_id=event.namespace_id,
        keys=block.encode_keys(event.keys),
    )
    if event.tier is not None:
        message.kind = pb2.BLOCK_EVENT_KIND_STORED
        message.tier = block.encode_tier(event.tier)
    return message


def _decode_pull(order: pb2.PullOrder) -> PullOrder:
    if not order.source_address:
        raise BadRequestError("source_address is empty, must be host:port")
    return PullOrder(
        check_namespace_id(order.namespace_id),
        _checked_key(order.tip_key),
        order.blocks,
        printable("source_address", order.source_address, ADDRESS_CHARS_MAX),
        optional_session(order.session_id),
    )


def _encode_pull(order: PullOrder) -> pb2.PullOrder:
    return pb2.PullOrder(
        namespace_id=order.namespace_id,
        tip_key=order.tip_key,
        blocks=order.blocks,
        source_address=order.source_address,
        session_id=order.session_id or "",
    )


def _checked_key(key: bytes) -> bytes:
    if not 1 <= len(key) <= KEY_WIDTH_MAX:
        raise BadKeysError(f"tip_key is {len(key)} bytes, must be in 1..{KEY_WIDTH_MAX}")
    return key


def _bounded(keys: PackedKeys) -> PackedKeys:
    if len(keys) > SNAPSHOT_KEYS_MAX:
        raise BadRequestError(f"message has {len(keys)} keys, must be <= {SNAPSHOT_KEYS_MAX}")
    return keys
