"""
Blocks in a Redis server: the requests that carry them, and what the replies mean. Pure.

A copy of a block is one string value: its frame, then its payload.
"""

from dataclasses import dataclass

from hearthkv.core.block_frame import FRAME_BYTES, BlockFrame, check_parts, encode_frame
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.errors import (
    BlockLostError,
    FrameError,
    HearthKVError,
    RespError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from hearthkv.datapath.redis_place import RedisPlace
from hearthkv.datapath.resp_wire import Buffer, Request, get_request, set_request


@dataclass(frozen=True, slots=True)
class NamedRead:
    """One copy to read, and where to."""

    name: bytes
    ref: BlockRef
    into: memoryview
    """Writable bytes, `ref.size_bytes` of them. Undefined where the outcome is an error."""


@dataclass(frozen=True, slots=True)
class NamedWrite:
    """One copy to write."""

    name: bytes
    frame: BlockFrame
    payload: Buffer
    """The caller leaves it as it is until the call returns."""

    ttl_ms: int | None = None
    """When the server forgets it by itself; None for never."""


def read_request(read: NamedRead) -> Request:
    """Return the request for a copy."""
    return get_request(read.name, head_bytes=FRAME_BYTES, payload=read.into)


def write_request(write: NamedWrite) -> Request:
    """Return the request that stores a copy."""
    parts = (encode_frame(write.frame), write.payload)
    return set_request(write.name, parts, ttl_ms=write.ttl_ms)


def read_outcome(place: RedisPlace, read: NamedRead, request: Request) -> StoreError | None:
    """Return None if the right bytes are in place, frame and checksum verified; else why not."""
    reply = request.reply
    if isinstance(reply, bytes):
        try:
            check_parts(reply, read.into, read.ref)
        except FrameError as error:
            return BlockLostError(f"{place}: {error}")
        return None
    if reply is None:
        return BlockLostError(f"{place} has no value for block {read.ref.key.hex()}")
    if isinstance(reply, FrameError):
        return BlockLostError(f"{place}: {reply}")
    return store_error(place, reply)


def write_outcome(place: RedisPlace, request: Request) -> StoreError | None:
    """Return None if the server says that it stored the copy; else why not."""
    if request.reply == b"OK":
        return None
    if isinstance(request.reply, HearthKVError):
        return store_error(place, request.reply)
    return StoreUnavailableError(f"{place} answered {request.reply!r}, must answer OK")


def store_error(place: RedisPlace, error: Exception) -> StoreError:
    """Say in a store's words what went wrong at a server."""
    if isinstance(error, RespError) and str(error).startswith("OOM"):
        return StoreFullError(f"{place} is full: {error}")
    return StoreUnavailableError(f"{place}: {error}")
