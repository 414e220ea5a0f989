"""Tests of `cachenode.slab_format`."""

import struct

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from cachenode.slab_format import (
    ENTRY_BYTES,
    HEADER_BYTES,
    SLOTS_MAX,
    SLOTS_STEP,
    Slab,
    decode_header,
    decode_table,
    encode_entry,
    encode_header,
    slot_bytes,
)
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.errors import FrameError
from hearthkv.core.namespace import NamespaceSpec

SPEC = NamespaceSpec(b"n" * 16, 16, 5000)
SLAB = Slab(7, SPEC, 16)
FRAME = BlockFrame(SPEC, b"k" * 16, b"p" * 20, checksum=2**64 - 1, sequence=2**63)
ROOT = BlockFrame(SPEC, b"r" * 32, b"", checksum=0, sequence=0)

specs = st.builds(
    NamespaceSpec, st.binary(min_size=16, max_size=32), st.integers(1, 65536), st.integers(1, 2**28)
)
slabs = st.builds(
    Slab,
    st.integers(0, 2**64 - 1),
    specs,
    st.integers(1, SLOTS_MAX // SLOTS_STEP).map(lambda steps: steps * SLOTS_STEP),
)


def sealed(head: bytes, seed: int = 0) -> bytes:
    """Fields with a seal that fits them."""
    return head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head, seed=seed))


def header_with(offset: int, field: bytes) -> bytes:
    """A sound header of SLAB, but for one field."""
    head = bytearray(encode_header(SLAB)[:-8])
    head[offset : offset + len(field)] = field
    return sealed(bytes(head))


def entry_with(offset: int, field: bytes) -> bytes:
    """A sound entry for slot 0 of SLAB, but for one field."""
    head = bytearray(encode_entry(SLAB, 0, FRAME)[:-8])
    head[offset : offset + len(field)] = field
    return sealed(bytes(head), seed=SLAB.number * SLOTS_MAX)


def table_of(frames: dict[int, BlockFrame], slab: Slab = SLAB) -> bytes:
    empty = bytes(ENTRY_BYTES)
    return b"".join(
        encode_entry(slab, slot, frames[slot]) if slot in frames else empty
        for slot in range(slab.slots)
    )


@pytest.mark.parametrize(
    ("block_bytes", "expected"), [(1, 4096), (4096, 4096), (4097, 8192), (2**20, 2**20)]
)
def test_a_slot_is_whole_pages(block_bytes: int, expected: int):
    assert slot_bytes(block_bytes) == expected


def test_header_table_and_slots_lie_one_after_the_other():
    assert SLAB.name == "6e" * 16 + "-7.slab"
    assert SLAB.entry_offset(0) == HEADER_BYTES
    assert SLAB.entry_offset(16) == SLAB.frame_bytes == SLAB.payload_offset(0)
    assert SLAB.payload_offset(1) == SLAB.frame_bytes + 8192
    assert SLAB.payload_offset(16) == SLAB.file_bytes


@given(slabs)
def test_what_is_encoded_is_decoded(slab: Slab):
    stored = encode_header(slab)
    assert len(stored) == HEADER_BYTES
    assert decode_header(stored) == slab
    assert slab.payload_offset(0) % 4096 == 0


@given(slabs, st.data())
def test_entries_are_decoded_in_their_slots(slab: Slab, data: st.DataObject):
    keys = st.binary(min_size=1, max_size=32)
    numbers = st.integers(0, 2**64 - 1)
    frames = st.builds(
        BlockFrame, st.just(slab.spec), keys, st.binary(max_size=32), numbers, numbers
    )
    held = data.draw(st.dictionaries(st.integers(0, slab.slots - 1), frames, max_size=5))
    found = decode_table(slab, table_of(held, slab))
    assert dict(found.frames) == held
    assert [slot for slot, _ in found.frames] == sorted(held)
    assert found.damaged == []


def test_a_header_that_was_cut_or_flipped_anywhere_is_none():
    stored = encode_header(SLAB)
    for at in range(HEADER_BYTES):
        with pytest.raises(FrameError):
            decode_header(stored[:at])
        flipped = bytearray(stored)
        flipped[at] ^= 1 << at % 8
        with pytest.raises(FrameError):
            decode_header(flipped)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        pytest.param(b"", "slab header is 0 bytes, must be 4096", id="empty"),
        pytest.param(b"HearthKV" + bytes(4088), "slab starts with b'HearthKV'", id="foreign"),
        pytest.param(header_with(8, b"\2"), "slab has version 2, must be 1", id="version"),
        pytest.param(header_with(10, b"\4"), "namespace_id is 4 bytes", id="namespace"),
        pytest.param(header_with(48, bytes(4)), "block_size is 0", id="block-size"),
        pytest.param(header_with(56, bytes(8)), "block_bytes is 0", id="block-bytes"),
        pytest.param(header_with(52, bytes(4)), "slab has 0 slots", id="no-slots"),
        pytest.param(header_with(52, b"\x11\0"), "17 slots, must be a multiple of 16", id="slots"),
        pytest.param(header_with(52, b"\x10\x10"), "4112 slots", id="too-many-slots"),
        pytest.param(encode_header(SLAB)[:-1] + b"\0", "its seal says", id="seal"),
    ],
)
def test_a_header_says_what_is_wrong_with_it(stored: bytes, message: str):
    with pytest.raises(FrameError, match=message):
        decode_header(stored)


def test_an_entry_that_was_flipped_anywhere_is_damaged_and_the_others_are_not():
    stored = table_of({0: ROOT, 3: FRAME, 15: ROOT})
    for at in range(ENTRY_BYTES):
        flipped = bytearray(stored)
        flipped[3 * ENTRY_BYTES + at] ^= 1 << at % 8
        found = decode_table(SLAB, flipped)
        assert found.frames == [(0, ROOT), (15, ROOT)]
        assert found.damaged == [3]


def test_no_flip_makes_a_block_of_an_empty_slot():
    for at in range(ENTRY_BYTES):
        flipped = bytearray(ENTRY_BYTES * 16)
        flipped[at] = 0xFF
        assert decode_table(SLAB, flipped).frames == []


def test_an_entry_that_was_torn_anywhere_is_no_block():
    stored = encode_entry(SLAB, 0, FRAME)
    for at in range(1, ENTRY_BYTES):
        torn = stored[:at] + bytes(ENTRY_BYTES * 16 - at)
        assert decode_table(SLAB, torn).frames == []


def test_an_entry_in_the_slot_of_another_is_damaged():
    entry = encode_entry(SLAB, 0, FRAME)
    found = decode_table(SLAB, bytes(ENTRY_BYTES) + entry + bytes(ENTRY_BYTES * 14))
    assert (found.frames, found.damaged) == ([], [1])


def test_an_entry_in_another_slab_is_damaged():
    found = decode_table(Slab(8, SPEC, 16), table_of({0: FRAME}))
    assert (found.frames, found.damaged) == ([], [0])


@pytest.mark.parametrize(
    ("offset", "field"),
    [
        pytest.param(0, b"\0", id="no-key"),
        pytest.param(0, b"\x21", id="key-too-long"),
        pytest.param(1, b"\x21", id="parent-too-long"),
        pytest.param(72, struct.pack("<Q", 4999), id="other-size"),
    ],
)
def test_an_impossible_entry_is_damaged_even_with_a_good_seal(offset: int, field: bytes):
    found = decode_table(SLAB, entry_with(offset, field) + bytes(ENTRY_BYTES * 15))
    assert (found.frames, found.damaged) == ([], [0])


def test_a_table_that_was_cut_is_refused():
    with pytest.raises(FrameError, match="table is 4095 bytes, must be 4096"):
        decode_table(SLAB, bytes(4095))
    assert decode_table(SLAB, bytes(5000)).frames == []
