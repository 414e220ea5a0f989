"""Tests of `cachenode.slot_index`."""

from hypothesis import given
from hypothesis import strategies as st

from cachenode.slab_allocator import SlotRun
from cachenode.slab_format import Slab
from cachenode.slot_index import SlotIndex, name_in, name_of, runs_in
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.direct_path import FileAddress
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier

SPEC = NamespaceSpec(b"n" * 16, 16, 4096)
SLAB, OTHER = Slab(1, SPEC, 16), Slab(2, SPEC, 16)
FRAMES = [BlockFrame(SPEC, b"k" * 16, b"", 0, sequence) for sequence in range(3)]
NAMES = [name_in(frame) for frame in FRAMES]


def test_a_copy_is_found_where_it_was_put():
    index = SlotIndex()
    index.add(SLAB, [4, 5], NAMES[:2])
    first, _, third = (frame.ref(Tier.SSD) for frame in FRAMES)
    assert index.address(first) == FileAddress(SLAB.name, SLAB.payload_offset(4))
    assert index.address(third) is None
    assert (name_of(first) in index, name_of(third) in index) == (True, False)
    assert len(index) == 2


def test_a_copy_is_taken_once():
    index = SlotIndex()
    index.add(SLAB, [4, 5], NAMES[:2])
    index.add(OTHER, [0], NAMES[2:])
    assert index.take(NAMES) == {SLAB: {4: NAMES[0], 5: NAMES[1]}, OTHER: {0: NAMES[2]}}
    assert index.take(NAMES) == {}
    assert len(index) == 0


@given(st.sets(st.integers(0, 15)))
def test_runs_are_as_long_as_they_can_be(slots: set[int]):
    runs = list(runs_in(SLAB, slots))
    assert [slot for run in runs for slot in range(run.first, run.first + run.count)] == sorted(
        slots
    )
    ends = [run.first + run.count for run in runs]
    assert all(end < run.first for end, run in zip(ends, runs[1:], strict=False))


def test_no_slots_make_no_run():
    assert list(runs_in(SLAB, [])) == []
    assert list(runs_in(SLAB, [3])) == [SlotRun(SLAB, 3, 1)]
