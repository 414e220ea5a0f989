"""
How a slab file is laid out: many blocks of one namespace in slots of one size. Pure.

::

    0                 4096                     data offset
    | slab header     | table: an entry a slot | slot 0 | slot 1 | ... | slot n - 1 |
    | 4 KiB, sealed   | 256 bytes each, sealed | payload, padded to 4 KiB           |

A slot's entry is written after its payload and zeroed before the slot is used again, so an entry
never stands for bytes that were not there. What a power cut leaves of either fails its seal or
the payload's checksum, and both are seeded with what they belong to: an entry with its slab and
slot, a payload with its namespace and key.

Header, little endian, zeros where nothing is said::

    offset  bytes  field
         0      8  magic "HearthSB"
         8      2  version
        10      1  length of the namespace id
        16     32  namespace id, padded with zeros
        48      4  tokens in a block
        52      4  slots
        56      8  payload bytes of a block
        64      8  number of the slab
      4088      8  xxh3-64 of the 4,088 bytes before

Entry; where all fields are zero, the slot is empty::

         0      1  length of the key
         1      1  length of the parent key, 0 for a prompt's first block
         8     32  key, padded
        40     32  parent key, padded
        72      8  payload bytes, as in the header
        80      8  checksum of the payload, `hearthkv.core.checksum.block_checksum`
        88      8  sequence of this copy
       248      8  xxh3-64 of the 248 bytes before, seeded with slab and slot
"""

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import xxhash

from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.errors import BadInputError, FrameError
from hearthkv.core.namespace import NamespaceSpec

HEADER_BYTES: Final = 4096
ENTRY_BYTES: Final = 256
ALIGN_BYTES: Final = 4096
"""Slots start and end at multiples of it, as O_DIRECT asks and as file systems count."""

SLOTS_STEP: Final = ALIGN_BYTES // ENTRY_BYTES
"""Slots of a slab are a multiple of it, so that a table ends where a slot may begin."""

SLOTS_MAX: Final = 4096
"""A table is 1 MiB at most."""

SLAB_VERSION: Final = 1
KEY_BYTES_MAX: Final = 32

_MAGIC = b"HearthSB"
_HEADER = struct.Struct("<8sHB5x32sIIQQ4016x")
_ENTRY = struct.Struct("<BB6x32s32sQQQ152x")
_SEALED_ENTRY = struct.Struct(_ENTRY.format + "Q")
_SEAL = struct.Struct("<Q")
_NO_ENTRY = _SEALED_ENTRY.unpack(bytes(_SEALED_ENTRY.size))

assert _HEADER.size + _SEAL.size == HEADER_BYTES
assert _ENTRY.size + _SEAL.size == ENTRY_BYTES


@dataclass(frozen=True)  # without slots, so that what is asked for at every read is kept
class Slab:
    """One slab file: whose blocks it holds, and how many at most."""

    number: int
    """64 bits, never used twice in one folder by one process."""

    spec: NamespaceSpec
    slots: int
    """A multiple of SLOTS_STEP, up to SLOTS_MAX."""

    def __hash__(self) -> int:
        """Cheap, because slabs are keys wherever a block is looked up."""
        return self.number

    @cached_property
    def name(self) -> str:
        """Name of the file."""
        return f"{self.spec.namespace_id.hex()}-{self.number:x}.slab"

    @cached_property
    def frame_bytes(self) -> int:
        """Bytes before the first slot: header and table."""
        return HEADER_BYTES + ENTRY_BYTES * self.slots

    @cached_property
    def slot_bytes(self) -> int:
        """Bytes of one slot."""
        return slot_bytes(self.spec.block_bytes)

    @property
    def file_bytes(self) -> int:
        """Length of the file; holes included."""
        return self.frame_bytes + self.slots * self.slot_bytes

    def entry_offset(self, slot: int) -> int:
        """Where the entry of a slot is."""
        return HEADER_BYTES + ENTRY_BYTES * slot

    def payload_offset(self, slot: int) -> int:
        """Where the payload of a slot is."""
        return self.frame_bytes + self.slot_bytes * slot


@dataclass(frozen=True, slots=True)
class Table:
    """What a slab's table was found to say."""

    frames: list[tuple[int, BlockFrame]]
    """Slots with a block, in order."""

    damaged: list[int]
    """Slots whose entry is neither empty nor sound."""


def slot_bytes(block_bytes: int) -> int:
    """Return the bytes of a slot for blocks of a size."""
    return -(-block_bytes // ALIGN_BYTES) * ALIGN_BYTES


def encode_header(slab: Slab) -> bytes:
    """Return a slab's header as HEADER_BYTES bytes."""
    spec = slab.spec
    fields = _HEADER.pack(
        _MAGIC,
        SLAB_VERSION,
        len(spec.namespace_id),
        spec.namespace_id,
        spec.block_size,
        slab.slots,
        spec.block_bytes,
        slab.number,
    )
    return fields + _SEAL.pack(xxhash.xxh3_64_intdigest(fields))


def decode_header(stored: bytes | bytearray | memoryview) -> Slab:
    """
    Return the slab that a file starts with.

    Raises:
        FrameError: If the header is too short, foreign, of another version, damaged or impossible.
    """
    if len(stored) < HEADER_BYTES:
        raise FrameError(f"slab header is {len(stored)} bytes, must be {HEADER_BYTES}")
    fields = memoryview(stored)[: _HEADER.size]
    magic, version, id_length, padded_id, block_size, slots, block_bytes, number = _HEADER.unpack(
        fields
    )
    if magic != _MAGIC:
        raise FrameError(f"slab starts with {magic!r}, must start with {_MAGIC!r}")
    if version != SLAB_VERSION:
        raise FrameError(f"slab has version {version}, must be {SLAB_VERSION}")
    (sealed,) = _SEAL.unpack_from(stored, _HEADER.size)
    found = xxhash.xxh3_64_intdigest(fields)
    if found != sealed:
        raise FrameError(f"slab header has checksum {found:016x}, its seal says {sealed:016x}")
    if not 1 <= slots <= SLOTS_MAX or slots % SLOTS_STEP:
        raise FrameError(
            f"slab has {slots} slots, must be a multiple of {SLOTS_STEP} up to {SLOTS_MAX}"
        )
    try:
        spec = NamespaceSpec(padded_id[:id_length], block_size, block_bytes)
    except BadInputError as error:
        raise FrameError(f"slab names no possible namespace: {error}") from error
    return Slab(number, spec, slots)


def encode_entry(slab: Slab, slot: int, frame: BlockFrame) -> bytes:
    """Return the entry of a block as ENTRY_BYTES bytes."""
    fields = _ENTRY.pack(
        len(frame.key),
        len(frame.parent_key),
        frame.key,
        frame.parent_key,
        frame.spec.block_bytes,
        frame.checksum,
        frame.sequence,
    )
    return fields + _SEAL.pack(xxhash.xxh3_64_intdigest(fields, seed=_seed(slab, slot)))


def decode_table(slab: Slab, stored: bytes | bytearray | memoryview) -> Table:
    """
    Return what a table says; `stored` is the whole of it. Fast, because recovery waits for it.

    Raises:
        FrameError: If it is too short.
    """
    table_bytes = ENTRY_BYTES * slab.slots
    if len(stored) < table_bytes:
        raise FrameError(f"table is {len(stored)} bytes, must be {table_bytes}")
    spec, found = slab.spec, Table([], [])
    table = memoryview(stored)[:table_bytes]
    for slot, entry in enumerate(_SEALED_ENTRY.iter_unpack(table)):
        if entry == _NO_ENTRY:
            continue
        key_length, parent_length, key, parent_key, size_bytes, checksum, sequence, seal = entry
        start = ENTRY_BYTES * slot
        is_sound = (
            xxhash.xxh3_64_intdigest(table[start : start + _ENTRY.size], seed=_seed(slab, slot))
            == seal
            and size_bytes == spec.block_bytes
            and 1 <= key_length <= KEY_BYTES_MAX
            and parent_length <= KEY_BYTES_MAX
        )
        if is_sound:
            frame = BlockFrame(
                spec, key[:key_length], parent_key[:parent_length], checksum, sequence
            )
            found.frames.append((slot, frame))
        else:
            found.damaged.append(slot)
    return found


def _seed(slab: Slab, slot: int) -> int:
    """An entry in any place but its own fails its seal."""
    return (slab.number * SLOTS_MAX + slot) % 2**64
