"""
How a block is stored, in whatever store: a frame of fixed size, then the payload. Pure.

The frame says which block the bytes are, so that a store can be scanned after a crash and a
mix-up is a miss (I1). It is written before the payload's first byte and carries a checksum of
its own: recovery reads frames and nothing else, and the payload is checked where it is used.

::

    offset  bytes  field
         0      8  magic "HearthKV"
         8      2  version
        10      1  length of the namespace id
        11      1  length of the key
        12      1  length of the parent key, 0 for a prompt's first block
        13      3  zero
        16     32  namespace id, padded with zeros
        48     32  key, padded
        80     32  parent key, padded
       112      4  tokens in a block
       116      4  zero
       120      8  payload bytes
       128      8  checksum of the payload, `hearthkv.core.checksum.block_checksum`
       136      8  sequence of this copy
       144     40  zero
       184      8  xxh3-64 of the 184 bytes before

All figures are little endian.
"""

import struct
from functools import lru_cache
from typing import NamedTuple

import xxhash

from hearthkv.core.block_ref import BlockRef
from hearthkv.core.checksum import block_checksum
from hearthkv.core.errors import BadInputError, FrameError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier

FRAME_BYTES = 192
"""Bytes before the payload."""

FRAME_VERSION = 1

_MAGIC = b"HearthKV"
_FIELDS = struct.Struct("<8sHBBB3x32s32s32sI4xQQQ40x")
_SEAL = struct.Struct("<Q")
_SEALED = struct.Struct(_FIELDS.format + "Q")

assert _SEALED.size == FRAME_BYTES


class BlockFrame(NamedTuple):
    """What is stored of a block beside its payload. A tuple for the reason that `BlockRef` is."""

    spec: NamespaceSpec
    key: bytes
    parent_key: bytes
    """Key of the block before it; empty for a prompt's first block."""

    checksum: int
    """Of the payload, made where the bytes entered the system."""

    sequence: int
    """Tells this copy of the block from all others that the node ever made."""

    def ref(self, tier: Tier) -> BlockRef:
        """The copy, as the catalog knows it."""
        spec, key, parent_key, checksum, sequence = self
        return BlockRef(
            spec.namespace_id, key, parent_key, tier, sequence, checksum, spec.block_bytes
        )

    def is_of(self, ref: BlockRef) -> bool:
        """Whether this is the frame of that copy."""
        return (
            self.key == ref.key
            and self.sequence == ref.sequence
            and self.spec.namespace_id == ref.namespace_id
        )

    @property
    def stored_bytes(self) -> int:
        """Bytes that the block takes in a store."""
        return FRAME_BYTES + self.spec.block_bytes


def frame_of(spec: NamespaceSpec, ref: BlockRef) -> BlockFrame:
    """Return the frame that a copy is stored under."""
    return BlockFrame(spec, ref.key, ref.parent_key, ref.checksum, ref.sequence)


def encode_frame(frame: BlockFrame) -> bytes:
    """Return the frame as FRAME_BYTES bytes."""
    spec = frame.spec
    fields = _FIELDS.pack(
        _MAGIC,
        FRAME_VERSION,
        len(spec.namespace_id),
        len(frame.key),
        len(frame.parent_key),
        spec.namespace_id,
        frame.key,
        frame.parent_key,
        spec.block_size,
        spec.block_bytes,
        frame.checksum,
        frame.sequence,
    )
    return fields + _SEAL.pack(xxhash.xxh3_64_intdigest(fields))


def decode_frame(stored: bytes | bytearray | memoryview) -> BlockFrame:
    """
    Return the frame at the start of stored bytes.

    Raises:
        FrameError: If they are too short, foreign, of another version or damaged.
    """
    if len(stored) < FRAME_BYTES:
        raise FrameError(f"frame is {len(stored)} bytes, must be {FRAME_BYTES}")
    (
        magic,
        version,
        namespace_length,
        key_length,
        parent_length,
        namespace_id,
        key,
        parent_key,
        block_size,
        block_bytes,
        checksum,
        sequence,
        sealed,
    ) = _SEALED.unpack_from(stored)
    if magic != _MAGIC:
        raise FrameError(f"frame starts with {magic!r}, must start with {_MAGIC!r}")
    if version != FRAME_VERSION:
        raise FrameError(f"frame has version {version}, must be {FRAME_VERSION}")
    found = xxhash.xxh3_64_intdigest(stored[: _FIELDS.size])
    if found != sealed:
        raise FrameError(f"frame has checksum {found:016x}, its seal says {sealed:016x}")
    try:
        spec = _spec(namespace_id[:namespace_length], block_size, block_bytes)
    except BadInputError as error:
        raise FrameError(f"frame names no possible namespace: {error}") from error
    return BlockFrame(spec, key[:key_length], parent_key[:parent_length], checksum, sequence)


@lru_cache(maxsize=1024)
def _spec(namespace_id: bytes, block_size: int, block_bytes: int) -> NamespaceSpec:
    """A scan meets a namespace many thousand times, and checks it once."""
    return NamespaceSpec(namespace_id, block_size, block_bytes)


def check_block(stored: bytes | bytearray | memoryview, ref: BlockRef) -> memoryview:
    """
    Return the payload of stored bytes, without a copy, if they are the copy `ref`.

    Raises:
        FrameError: If the frame is damaged or of another block, or the payload has another
            length or checksum than the frame says.
    """
    payload = memoryview(stored)[FRAME_BYTES:]
    check_parts(memoryview(stored)[:FRAME_BYTES], payload, ref)
    return payload


def check_parts(
    head: bytes | bytearray | memoryview, payload: bytes | bytearray | memoryview, ref: BlockRef
) -> None:
    """
    Check a frame and a payload that lie apart.

    Raises:
        FrameError: If they are not those of the copy `ref`, as in `check_block`.
    """
    frame = decode_frame(head)
    if not frame.is_of(ref):
        raise FrameError(
            f"frame is of block {frame.key.hex()} copy {frame.sequence}, "
            f"must be of {ref.key.hex()} copy {ref.sequence}"
        )
    if len(payload) != frame.spec.block_bytes:
        raise FrameError(f"payload is {len(payload)} bytes, frame says {frame.spec.block_bytes}")
    found = block_checksum(ref.namespace_id, ref.key, payload)
    if found != ref.checksum:
        raise FrameError(f"payload has checksum {found:016x}, must have {ref.checksum:016x}")
