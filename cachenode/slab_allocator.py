"""
Which slot of which slab a block gets, and how many bytes the slabs take on disk. Pure.

A slot is a *hole* (no bytes on disk), *free* (bytes on disk, no block) or *used*. Invariant (I3),
after every call::

    disk_bytes == sum of header and table of every slab + slot bytes of its free and used slots
    disk_bytes <= limit_bytes, but for slabs that were found on disk under a lowered limit

What a file system really takes is never more: a used slot counts from its allocation on, before
it is written, and a slot that is given back counts until its hole is punched.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from cachenode.plans import TierLimits
from cachenode.slab_format import (
    ALIGN_BYTES,
    ENTRY_BYTES,
    HEADER_BYTES,
    SLOTS_MAX,
    SLOTS_STEP,
    Slab,
    slot_bytes,
)
from hearthkv.core.namespace import NamespaceSpec

SLAB_BYTES_MAX: Final = 128 * 1024**2
"""Payload bytes of a slab: enough for long runs, and not too much to lose with one header."""

SLABS_MIN: Final = 8
"""Slabs that the limit is cut into at least, where blocks are small enough for that."""

RESERVE_SHARE: Final = 128
"""One part in so many is kept for headers and for entries of slots without a block."""

ALLOWANCE_BYTES: Final = HEADER_BYTES + ENTRY_BYTES * SLOTS_STEP
"""Header and table of the smallest slab."""

_HOLE, _FREE, _USED = range(3)
_FREE_AS_HOLE = bytes.maketrans(bytes((_FREE,)), bytes((_HOLE,)))


def slab_limits(limit_bytes: int) -> TierLimits:
    """
    Return what the catalog may put on a disk of which the slabs may take `limit_bytes`.

    A block counts with its slot and its entry. One part in RESERVE_SHARE is kept for headers and
    for the entries of slots without a block. That is enough for blocks of 16 KiB and more; where
    many namespaces of smaller ones leave their tables nearly empty, a write may find the disk
    full below the catalog's limit.
    """
    kept_bytes = limit_bytes // RESERVE_SHARE + 2 * ALLOWANCE_BYTES
    return TierLimits(
        max(0, limit_bytes - kept_bytes), align_bytes=ALIGN_BYTES, entry_bytes=ENTRY_BYTES
    )


@dataclass(frozen=True, slots=True)
class SlotRun:
    """Neighbouring slots of one slab."""

    slab: Slab
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """Slots for blocks, perhaps fewer than were asked for."""

    runs: tuple[SlotRun, ...]
    created: tuple[Slab, ...]
    """Slabs that must be made before their slots are used."""

    @property
    def slots(self) -> Iterator[tuple[Slab, int]]:
        """One slot after the other."""
        return ((run.slab, run.first + i) for run in self.runs for i in range(run.count))


@dataclass(frozen=True, slots=True)
class Release:
    """What gives bytes back to the disk."""

    removals: tuple[Slab, ...] = ()
    """Slabs without a block."""

    punches: tuple[SlotRun, ...] = ()
    """Free slots that become holes."""

    def __bool__(self) -> bool:
        """Whether there is anything to give back."""
        return bool(self.removals or self.punches)


@dataclass(slots=True)
class _Book:
    """The slots of one slab, a byte each."""

    slab: Slab
    states: bytearray = field(init=False)

    def __post_init__(self) -> None:
        self.states = bytearray(self.slab.slots)

    @property
    def used(self) -> int:
        return self.states.count(_USED)

    @property
    def free(self) -> int:
        return self.states.count(_FREE)

    @property
    def holes(self) -> int:
        return self.states.count(_HOLE)

    @property
    def disk_bytes(self) -> int:
        return self.slab.frame_bytes + (self.slab.slots - self.holes) * self.slab.slot_bytes

    def holes_in(self, run: SlotRun) -> int:
        return self.states.count(_HOLE, run.first, run.first + run.count)

    def free_run(self, count: int) -> SlotRun | None:
        """The first `count` free slots that lie together."""
        return self._run_at(self.states.find(bytes((_FREE,)) * count), count)

    def empty_run(self, count: int) -> SlotRun | None:
        """The first `count` slots without a block that lie together."""
        return self._run_at(self.states.translate(_FREE_AS_HOLE).find(bytes(count)), count)

    def free_runs(self) -> Iterator[SlotRun]:
        """The free slots, as far together as they lie."""
        first = self.states.find(_FREE)
        while first >= 0:
            end = first + 1
            while end < len(self.states) and self.states[end] == _FREE:
                end += 1
            yield SlotRun(self.slab, first, end - first)
            first = self.states.find(_FREE, end)

    def _run_at(self, first: int, count: int) -> SlotRun | None:
        return SlotRun(self.slab, first, count) if first >= 0 else None


class SlabAllocator:
    """
    Gives slots of all namespaces' slabs within one limit.

    A run of neighbours is worth more than reuse: one read fetches it. So a batch goes, in this
    order, to free slots that lie together, to slots that lie together with holes among them, to a
    new slab, and in pieces to whatever is left. Growth beyond the limit asks for a release first.
    """

    def __init__(self, limit_bytes: int, *, next_number: int = 1) -> None:
        self.limit_bytes: Final = limit_bytes
        self.disk_bytes = 0
        self._next_number = next_number
        self._books: dict[Slab, _Book] = {}
        self._by_namespace: dict[NamespaceSpec, dict[Slab, _Book]] = {}

    @property
    def slabs(self) -> Iterable[Slab]:
        """All slabs there are."""
        return self._books.keys()

    @property
    def room_bytes(self) -> int:
        """Bytes left for growth; negative over a lowered limit."""
        return self.limit_bytes - self.disk_bytes

    def used_slots(self, slab: Slab) -> int:
        """Slots of a slab that hold a block, or wait for one."""
        return self._books[slab].used

    # Slabs found on disk

    def emptied(self) -> "SlabAllocator":
        """Return an allocator that knows of no slab, and gives no number again."""
        return SlabAllocator(self.limit_bytes, next_number=self._next_number)

    def adopt(self, slab: Slab, used: Iterable[int], *, are_others_free: bool) -> None:
        """
        Count a slab that was found on disk.

        Its slots outside of `used` have bytes on disk if `are_others_free`, else none.
        """
        self._add(slab)
        states = bytearray((_FREE if are_others_free else _HOLE,)) * slab.slots
        for slot in used:
            states[slot] = _USED
        self.disk_bytes += (slab.slots - states.count(_HOLE)) * slab.slot_bytes
        self._books[slab].states = states
        self._next_number = max(self._next_number, slab.number + 1)

    # Taking and giving slots

    def allocate(self, spec: NamespaceSpec, count: int) -> Allocation:
        """Take slots for up to `count` blocks, as many as there is room for."""
        runs: list[SlotRun] = []
        created: list[Slab] = []
        while count > 0:
            run = self._next_run(spec, count, created)
            if run is None:
                break
            self._set(run, _USED)
            runs.append(run)
            count -= run.count
        return Allocation(tuple(runs), tuple(created))

    def reuse(self, spec: NamespaceSpec, count: int) -> tuple[SlotRun, ...]:
        """Take up to `count` free slots: for a disk that is full below the limit."""
        runs: list[SlotRun] = []
        while count > 0:
            run = self._longest_free_run(spec, count)
            if run is None:
                break
            self._set(run, _USED)
            runs.append(run)
            count -= run.count
        return tuple(runs)

    def free(self, runs: Iterable[SlotRun]) -> None:
        """Take back slots whose block is erased, or was never written; their bytes stay."""
        for run in runs:
            self._set(run, _FREE)

    def forget(self, slab: Slab) -> None:
        """Count a slab no more: it could not be made, or is not there any more."""
        book = self._books.pop(slab)
        self.disk_bytes -= book.disk_bytes
        siblings = self._by_namespace[slab.spec]
        del siblings[slab]
        if not siblings:
            del self._by_namespace[slab.spec]

    # Giving bytes back

    def plan_release(self, spec: NamespaceSpec, count: int) -> Release:
        """
        Plan what other namespaces must give back before `count` blocks find room.

        The free slots of its own serve the namespace as they are.
        """
        others = (book for book in self._books.values() if book.slab.spec != spec)
        return self._plan_punches(others, self._growth_bytes(spec, count) - self.room_bytes)

    def plan_trim(self) -> Release:
        """Plan the removal of slabs without a block, and what else is over the limit."""
        empty = [book for book in self._books.values() if not book.used]
        over_bytes = -self.room_bytes - sum(book.disk_bytes for book in empty)
        kept = (book for book in self._books.values() if book.used)
        return Release(
            tuple(book.slab for book in empty), self._plan_punches(kept, over_bytes).punches
        )

    def commit_release(self, release: Release) -> None:
        """Count out what was given back."""
        for run in release.punches:
            self._set(run, _HOLE)
        for slab in release.removals:
            self.forget(slab)

    # Choosing

    def _next_run(self, spec: NamespaceSpec, count: int, created: list[Slab]) -> SlotRun | None:
        """The best place for the next blocks, perhaps not for all; None where there is no room."""
        run = self._free_run(spec, count) or self._growing_run(spec, count)
        if run is not None:
            return run
        slab = self._new_slab(spec, count)
        if slab is None:
            run = self._piece(spec, count)
            if run is not None:
                return run
            count = max(1, self._fitting(spec, count))
            slab = self._new_slab(spec, count)
        if slab is None:
            return None
        created.append(slab)
        return SlotRun(slab, 0, min(count, slab.slots))

    def _piece(self, spec: NamespaceSpec, count: int) -> SlotRun | None:
        """A run as long as can be had: of free slots, else of holes as far as there is room."""
        run = self._longest_free_run(spec, count)
        if run is not None:
            return run
        for size in _halves(min(count, self.room_bytes // slot_bytes(spec.block_bytes))):
            run = self._growing_run(spec, size)
            if run is not None:
                return run
        return None

    def _longest_free_run(self, spec: NamespaceSpec, count: int) -> SlotRun | None:
        """Free slots that lie together, about as many as can be had and `count` at most."""
        runs = (self._free_run(spec, size) for size in _halves(count))
        return next((run for run in runs if run is not None), None)

    def _free_run(self, spec: NamespaceSpec, count: int) -> SlotRun | None:
        for book in self._by_namespace.get(spec, {}).values():
            run = book.free_run(count)
            if run is not None:
                return run
        return None

    def _growing_run(self, spec: NamespaceSpec, count: int) -> SlotRun | None:
        """Slots that lie together and whose holes there is room for."""
        for book in self._by_namespace.get(spec, {}).values():
            run = book.empty_run(count)
            if run and book.holes_in(run) * run.slab.slot_bytes <= self.room_bytes:
                return run
        return None

    def _new_slab(self, spec: NamespaceSpec, count: int) -> Slab | None:
        """
        Add a slab for `count` blocks, or as many as a slab may hold; None without room for that.

        Slabs grow with their namespace, so that a small one does not pay for a large table.
        """
        slots_max = self._slots_max(spec)
        count = min(count, slots_max)
        held = sum(slab.slots for slab in self._by_namespace.get(spec, ()))
        blocks_bytes = count * slot_bytes(spec.block_bytes)
        for slots in (min(slots_max, _table_slots(max(held, count))), _table_slots(count)):
            slab = Slab(self._next_number, spec, slots)
            if slab.frame_bytes + blocks_bytes <= self.room_bytes:
                self._next_number += 1
                self._add(slab)
                return slab
        return None

    def _fitting(self, spec: NamespaceSpec, count: int) -> int:
        """Blocks that surely fit into a new slab."""
        each_bytes = slot_bytes(spec.block_bytes) + ENTRY_BYTES
        return min(count, (self.room_bytes - ALLOWANCE_BYTES) // each_bytes)

    def _slots_max(self, spec: NamespaceSpec) -> int:
        slab_bytes = min(SLAB_BYTES_MAX, self.limit_bytes // SLABS_MIN)
        slots = min(SLOTS_MAX, slab_bytes // slot_bytes(spec.block_bytes))
        return max(SLOTS_STEP, slots // SLOTS_STEP * SLOTS_STEP)

    def _growth_bytes(self, spec: NamespaceSpec, count: int) -> int:
        """Bytes that `count` blocks need beyond the free slots of their namespace."""
        books = self._by_namespace.get(spec, {}).values()
        growing = count - sum(book.free for book in books)
        if growing <= 0:
            return 0
        beyond = max(0, growing - sum(book.holes for book in books))
        slabs = -(-beyond // self._slots_max(spec))
        frames_bytes = slabs * HEADER_BYTES + _table_slots(beyond) * ENTRY_BYTES
        return growing * slot_bytes(spec.block_bytes) + frames_bytes

    def _plan_punches(self, books: Iterable[_Book], missing_bytes: int) -> Release:
        punches: list[SlotRun] = []
        for book in books:
            for run in book.free_runs():
                if missing_bytes <= 0:
                    return Release(punches=tuple(punches))
                each_bytes = book.slab.slot_bytes
                count = min(run.count, -(-missing_bytes // each_bytes))
                punches.append(SlotRun(run.slab, run.first, count))
                missing_bytes -= count * each_bytes
        return Release(punches=tuple(punches))

    def _add(self, slab: Slab) -> None:
        book = self._books[slab] = _Book(slab)
        self._by_namespace.setdefault(slab.spec, {})[slab] = book
        self.disk_bytes += slab.frame_bytes

    def _set(self, run: SlotRun, state: int) -> None:
        book = self._books[run.slab]
        holes = book.holes_in(run)
        book.states[run.first : run.first + run.count] = bytes((state,)) * run.count
        self.disk_bytes += (holes - book.holes_in(run)) * run.slab.slot_bytes


def _table_slots(count: int) -> int:
    """Round up to what a table may have."""
    return -(-count // SLOTS_STEP) * SLOTS_STEP


def _halves(count: int) -> Iterator[int]:
    """`count`, and what is left of it when it is halved again and again: down to 1."""
    while count > 0:
        yield count
        count //= 2
