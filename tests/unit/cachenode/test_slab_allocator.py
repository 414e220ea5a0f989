"""Tests of `cachenode.slab_allocator`, most of all against a model that counts slot by slot."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cachenode.plans import TierLimits
from cachenode.slab_allocator import Release, SlabAllocator, SlotRun, slab_limits
from cachenode.slab_format import Slab
from hearthkv.core.namespace import NamespaceSpec

A = NamespaceSpec(b"a" * 16, 16, 4096)
B = NamespaceSpec(b"b" * 16, 16, 10_000)  # slots of 12 KiB
C = NamespaceSpec(b"c" * 32, 16, 4096)
FRAME_BYTES = 4096 + 16 * 256
LIMIT_BYTES = 100 * 4096


def slots_of(runs: tuple[SlotRun, ...]) -> list[tuple[Slab, int]]:
    return [(run.slab, slot) for run in runs for slot in range(run.first, run.first + run.count)]


def allocator(blocks: int, slabs: int = 1) -> SlabAllocator:
    """With room for just so many slabs of 16 slots and blocks of A."""
    return SlabAllocator(slabs * FRAME_BYTES + blocks * 4096)


class DiskModel(RuleBasedStateMachine):
    """The slots as a file system would see them: each a hole, written, or holding a block."""

    def __init__(self) -> None:
        super().__init__()
        self.allocator = SlabAllocator(LIMIT_BYTES)
        self.on_disk: dict[Slab, set[int]] = {}
        self.blocks: dict[Slab, set[int]] = {}

    def disk_bytes(self) -> int:
        return sum(
            slab.frame_bytes + len(slots) * slab.slot_bytes for slab, slots in self.on_disk.items()
        )

    def perform(self, release: Release) -> None:
        for slab in release.removals:
            assert not self.blocks[slab]
            del self.on_disk[slab], self.blocks[slab]
        for slab, slot in slots_of(release.punches):
            assert slot not in self.blocks[slab]
            self.on_disk[slab].remove(slot)  # a KeyError would be a hole punched in a hole
        self.allocator.commit_release(release)

    @rule(spec=st.sampled_from([A, B, C]), count=st.integers(0, 40), releases=st.booleans())
    def write(self, spec: NamespaceSpec, count: int, releases: bool) -> None:
        if releases:
            self.perform(self.allocator.plan_release(spec, count))
        given_slots = self.allocator.allocate(spec, count)
        for slab in given_slots.created:
            assert slab not in self.on_disk
            self.on_disk[slab], self.blocks[slab] = set(), set()
        taken = slots_of(given_slots.runs)
        assert len(taken) == len(set(taken)) <= count
        for slab, slot in taken:
            assert slab.spec == spec
            assert 0 <= slot < slab.slots
            assert slot not in self.blocks[slab]
            self.on_disk[slab].add(slot)
            self.blocks[slab].add(slot)
        if releases and len(taken) < count:
            # Whatever could be given back was, and still there is no room for one block more.
            assert self.on_disk == self.blocks
            ours = [slab for slab in self.on_disk if slab.spec == spec]
            has_hole = any(len(self.on_disk[slab]) < slab.slots for slab in ours)
            least_bytes = Slab(0, spec, 16).slot_bytes + (0 if has_hole else FRAME_BYTES)
            assert self.allocator.room_bytes < least_bytes

    @precondition(lambda self: any(self.blocks.values()))
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        held = sorted(
            ((slab, slot) for slab, slots in self.blocks.items() for slot in slots),
            key=lambda place: (place[0].number, place[1]),
        )
        for slab, slot in data.draw(st.lists(st.sampled_from(held), unique=True)):
            self.blocks[slab].remove(slot)
            self.allocator.free([SlotRun(slab, slot, 1)])

    @rule()
    def trim(self) -> None:
        self.perform(self.allocator.plan_trim())
        assert all(self.blocks.values())

    @precondition(lambda self: self.on_disk)
    @rule(data=st.data())
    def lose_a_slab(self, data: st.DataObject) -> None:
        slab = data.draw(st.sampled_from(sorted(self.on_disk, key=lambda slab: slab.number)))
        self.allocator.forget(slab)
        del self.on_disk[slab], self.blocks[slab]

    @rule(are_punched=st.booleans())
    def start_anew(self, are_punched: bool) -> None:
        again = self.allocator.emptied()
        for slab, slots in self.blocks.items():
            again.adopt(slab, slots, are_others_free=not are_punched)
            self.on_disk[slab] = set(slots) if are_punched else set(range(slab.slots))
        if again.disk_bytes <= LIMIT_BYTES:
            self.allocator = again
        else:  # what was taken for free may be over the limit: it is given back
            self.allocator = again
            self.perform(again.plan_trim())

    @invariant()
    def bytes_agree(self) -> None:
        assert self.allocator.disk_bytes == self.disk_bytes()
        assert self.allocator.disk_bytes <= LIMIT_BYTES
        assert self.allocator.room_bytes == LIMIT_BYTES - self.disk_bytes()

    @invariant()
    def slots_agree(self) -> None:
        assert set(self.allocator.slabs) == set(self.on_disk)
        for slab, slots in self.blocks.items():
            assert self.allocator.used_slots(slab) == len(slots)


DiskModel.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestDiskModel = DiskModel.TestCase


def test_a_batch_gets_neighbours():
    (run,) = allocator(16).allocate(A, 10).runs
    assert (run.first, run.count) == (0, 10)


def test_a_batch_goes_to_free_slots_that_lie_together_before_the_disk_grows():
    slots = allocator(16)
    (run,) = slots.allocate(A, 10).runs
    slots.free([SlotRun(run.slab, 0, 1), SlotRun(run.slab, 4, 3)])
    before = slots.disk_bytes
    assert slots.allocate(A, 3).runs == (SlotRun(run.slab, 4, 3),)
    assert slots.disk_bytes == before


def test_a_batch_goes_to_holes_that_lie_together_before_it_is_cut():
    slots = allocator(16)
    (run,) = slots.allocate(A, 10).runs
    slots.free([SlotRun(run.slab, 0, 2)])
    assert slots.allocate(A, 3).runs == (SlotRun(run.slab, 10, 3),)


def test_a_batch_is_cut_where_the_disk_may_not_grow():
    slots = allocator(10)
    (run,) = slots.allocate(A, 10).runs
    slots.free([SlotRun(run.slab, 0, 1), SlotRun(run.slab, 4, 3)])
    assert slots.allocate(A, 9).runs == (
        SlotRun(run.slab, 4, 2),
        SlotRun(run.slab, 0, 1),
        SlotRun(run.slab, 6, 1),
    )


def test_free_slots_are_reused_without_growth():
    slots = allocator(100)
    (run,) = slots.allocate(A, 10).runs
    slots.free([SlotRun(run.slab, 0, 1), SlotRun(run.slab, 4, 3)])
    before = slots.disk_bytes
    assert slots.reuse(A, 2) == (SlotRun(run.slab, 4, 2),)
    assert slots.reuse(A, 9) == (SlotRun(run.slab, 0, 1), SlotRun(run.slab, 6, 1))
    assert slots.reuse(A, 1) == slots.reuse(B, 1) == ()
    assert slots.disk_bytes == before


def test_a_batch_gets_as_many_slots_as_there_is_room_for():
    slots = allocator(5)
    assert len(slots_of(slots.allocate(A, 9).runs)) == 5
    assert slots.room_bytes == 0
    assert slots.allocate(A, 1).runs == ()


def test_a_slab_grows_with_its_namespace_and_up_to_a_limit():
    slots = SlabAllocator(1 << 30)
    sizes = [slab.slots for _ in range(12) for slab in slots.allocate(A, 400).created]
    assert sizes == [400, 400, 800, 1600, 3200]
    assert [slab.slots for slab in slots.allocate(A, 9000).created] == [4096, 4096]


def test_a_slab_of_huge_blocks_has_few_slots():
    huge = NamespaceSpec(b"h" * 16, 16, 256 * 1024**2)
    slots = SlabAllocator(1 << 40)
    assert [slab.slots for slab in slots.allocate(huge, 20).created] == [16, 16]


def test_other_namespaces_give_back_what_they_do_not_use():
    slots = allocator(20, slabs=2)
    (run,) = slots.allocate(A, 16).runs
    slots.free([SlotRun(run.slab, 8, 8)])
    release = slots.plan_release(C, 12)
    assert slots_of(release.punches) == [(run.slab, 8 + i) for i in range(8)]
    slots.commit_release(release)
    assert len(slots_of(slots.allocate(C, 12).runs)) == 12
    assert slots.room_bytes == 0


def test_no_more_is_given_back_than_is_needed():
    slots = allocator(20, slabs=2)
    (run,) = slots.allocate(A, 16).runs
    slots.free([SlotRun(run.slab, 0, 3), SlotRun(run.slab, 8, 8)])
    assert not slots.plan_release(C, 4)
    assert slots.plan_release(C, 6).punches == (SlotRun(run.slab, 0, 2),)
    assert not slots.plan_release(A, 10)  # its own free slots will do


def test_a_lowered_limit_is_come_to_by_trimming():
    slab = Slab(9, A, 16)
    slots = SlabAllocator(FRAME_BYTES + 4 * 4096)
    slots.adopt(slab, range(8), are_others_free=False)
    assert slots.room_bytes == -4 * 4096
    assert slots.allocate(A, 1).runs == ()
    slots.free([SlotRun(slab, 0, 6)])
    slots.commit_release(slots.plan_trim())
    assert slots.room_bytes == 0
    (new,) = SlabAllocator(1 << 30, next_number=10).allocate(A, 1).created
    assert new.number == 10


def test_numbers_of_slabs_are_never_given_twice():
    slots = SlabAllocator(1 << 30)
    slots.adopt(Slab(41, A, 16), [], are_others_free=False)
    (slab,) = slots.allocate(B, 1).created
    slots.forget(slab)
    assert [new.number for new in slots.allocate(B, 1).created] == [43]
    assert [new.number for new in slots.emptied().allocate(B, 1).created] == [44]


def test_an_allocation_gives_its_slots_one_by_one():
    given_slots = SlabAllocator(1 << 30).allocate(A, 2)
    (slab,) = given_slots.created
    assert list(given_slots.slots) == [(slab, 0), (slab, 1)]


def test_blocks_count_with_slot_and_entry_and_leave_room_for_the_rest():
    limits = slab_limits(1 << 30)
    assert limits.stored_bytes(5000) == 8192 + 256
    assert limits.limit_bytes == (1 << 30) - (1 << 23) - 2 * FRAME_BYTES
    assert slab_limits(0) == TierLimits(0, align_bytes=4096, entry_bytes=256)


def test_what_the_catalog_may_hold_of_blocks_of_16_kib_finds_room():
    spec = NamespaceSpec(b"s" * 16, 16, 16 * 1024)
    limit_bytes = 64 * 1024**2
    limits, slots = slab_limits(limit_bytes), SlabAllocator(limit_bytes)
    count = limits.limit_bytes // limits.stored_bytes(spec.block_bytes)
    taken = [slot for _ in range(count) for slot in slots_of(slots.allocate(spec, 1).runs)]
    assert len(taken) == count
