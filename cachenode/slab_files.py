"""
Blocks in slab files: the blocking half of the SSD store. Called from its threads.

Two locks. `_state` guards what is known of the slots and is never held over a system call, so
that the event loop may look a block up. `_growing` is held by whoever takes slots or gives bytes
back, so that what one planned is not undone by another; readers never meet it.
"""

import errno
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from cachenode.disk import FULL, Disk
from cachenode.slab_allocator import Release, SlabAllocator, SlotRun
from cachenode.slab_format import Slab
from cachenode.slab_io import SlabIo
from cachenode.slot_index import Name, SlotIndex, name_in, name_of, runs_in
from cachenode.store import CopyWrite
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.direct_path import FileAddress
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.datapath.file_reader import FileReader

ENDING: Final = ".slab"


@dataclass(frozen=True, slots=True)
class _Batch:
    """Blocks of one namespace, by where they are in the caller's batch."""

    spec: NamespaceSpec
    writes: dict[int, CopyWrite]
    is_given_up: threading.Event


class SlabFiles:
    """
    The slab files of one folder. Every method but `locate` may raise OSError.

    Args:
        reader: Reads from the same folder; is told which files go.
        limit_bytes: What the files take on disk at most.
    """

    def __init__(self, disk: Disk, reader: FileReader, *, limit_bytes: int) -> None:
        self.disk = disk
        self.reader = reader
        self.limit_bytes = limit_bytes
        self._io = SlabIo(disk)
        self._state = threading.Lock()
        self._growing = threading.RLock()
        self._allocator = SlabAllocator(limit_bytes)
        self._index = SlotIndex()
        self._changes_under_way = 0
        self._is_scanned = False
        self._is_scanning = False

    @property
    def disk_bytes(self) -> int:
        """What the files take on disk at most."""
        return self._allocator.disk_bytes

    def locate(self, refs: Iterable[BlockRef]) -> list[FileAddress | None]:
        """Return where the payloads of copies are; None for what is not here."""
        with self._state:
            return [self._index.address(ref) for ref in refs]

    # Writing

    def write(
        self, writes: Sequence[CopyWrite], is_given_up: threading.Event
    ) -> list[OSError | None]:
        """
        Write blocks, those of a namespace next to each other, and return what became of each.

        What was given up before its entry is written gets none. What was given up later is
        erased here, for its erasure by others may have come before it.
        """
        outcomes: list[OSError | None] = [None] * len(writes)
        by_spec: dict[NamespaceSpec, list[int]] = defaultdict(list)
        for index, write in enumerate(writes):
            by_spec[write.frame.spec].append(index)
        with self._changing():
            for spec, indexes in by_spec.items():
                batch = _Batch(spec, {index: writes[index] for index in indexes}, is_given_up)
                self._write_batch(batch, outcomes)
            if any(outcomes) or is_given_up.is_set():
                self._trim()
        return outcomes

    def _write_batch(self, batch: _Batch, outcomes: list[OSError | None]) -> None:
        """Write blocks of one namespace; where the disk is full, to slots that have their bytes."""
        taken, refusal = self._take(batch.spec, len(batch.writes))
        left = self._fill(taken, batch, list(batch.writes), outcomes)
        for index in left:
            outcomes[index] = refusal
        full = [i for i in batch.writes if (error := outcomes[i]) and error.errno in FULL]
        if full:
            with self._growing, self._state:
                reused = self._allocator.reuse(batch.spec, len(full))
            self._fill([(run, None) for run in reused], batch, full, outcomes)

    def _fill(
        self,
        taken: Sequence[tuple[SlotRun, OSError | None]],
        batch: _Batch,
        indexes: Sequence[int],
        outcomes: list[OSError | None],
    ) -> list[int]:
        """Write blocks to slots that were taken for them; return those without a slot."""
        left = iter(indexes)
        for run, error in taken:
            mine = list(islice(left, run.count))
            outcome = error or self._write_run(
                run, [batch.writes[index] for index in mine], batch.is_given_up
            )
            for index in mine:
                outcomes[index] = outcome
        return list(left)

    def _take(
        self, spec: NamespaceSpec, count: int
    ) -> tuple[list[tuple[SlotRun, OSError | None]], OSError]:
        """
        Take slots for blocks.

        Returns:
            Runs, each with what went wrong where its slab could not be made; and why there are
            no more of them.
        """
        refusal = OSError(errno.ENOSPC, "no room within the tier's limit")
        with self._growing:
            with self._state:
                release = self._allocator.plan_release(spec, count)
            try:
                self._perform(release)
            except OSError as failure:
                refusal = failure
            with self._state:
                allocation = self._allocator.allocate(spec, count)
            failed = {slab: self._make(slab) for slab in allocation.created}
            with self._state:
                for slab, error in failed.items():
                    if error is not None:
                        self._allocator.forget(slab)
        return [(run, failed.get(run.slab)) for run in allocation.runs], refusal

    def _make(self, slab: Slab) -> OSError | None:
        try:
            self._io.make(slab)
        except OSError as error:
            return error
        return None

    def _write_run(
        self, run: SlotRun, writes: Sequence[CopyWrite], is_given_up: threading.Event
    ) -> OSError | None:
        """Write blocks to slots that are taken; on failure the slots are given back."""
        try:
            self._io.write(run, writes, is_given_up)
        except OSError as error:
            self._undo(run)
            return error
        names = [name_in(write.frame) for write in writes]
        with self._state:
            self._index.add(run.slab, range(run.first, run.first + run.count), names)
        if is_given_up.is_set():
            self._erase(names)
        return None

    def _undo(self, run: SlotRun) -> None:
        """Give back slots whose blocks could not be written, as far as the disk lets us."""
        with self._growing:
            with suppress(OSError), self._io.opened(run.slab) as descriptor:
                self._io.zero_entries(descriptor, run)
            # Where not even that was possible, the entries may be found by the next scan, which
            # is no harm: they are of no wrong bytes.
            with self._state:
                self._allocator.free([run])
            with suppress(OSError):
                self._perform(Release(punches=(run,)))

    # Erasing

    def erase(self, refs: Iterable[BlockRef]) -> None:
        """Forget blocks; those that are not here are passed over."""
        with self._changing():
            self._erase(map(name_of, refs))
            self._trim()

    def _erase(self, names: Iterable[Name]) -> None:
        with self._state:
            taken = self._index.take(names)
        failure: OSError | None = None
        for slab, by_slot in taken.items():
            runs = list(runs_in(slab, by_slot))
            try:
                with self._io.opened(slab) as descriptor:
                    for run in runs:
                        self._io.zero_entries(descriptor, run)
            except OSError as error:
                failure = error
                with self._state:
                    self._index.add(slab, by_slot.keys(), by_slot.values())
            else:
                with self._state:
                    self._allocator.free(runs)
        if failure is not None:
            raise failure

    # Giving bytes back

    def _trim(self) -> None:
        """Remove slabs without a block. What can't be removed now is tried again next time."""
        with self._growing:
            with self._state:
                release = self._allocator.plan_trim()
            with suppress(OSError):
                self._perform(release)

    def _perform(self, release: Release) -> None:
        for slab in release.removals:
            self.reader.forget(slab.name)
            self.disk.remove(slab.name)
            with self._state:
                self._allocator.commit_release(Release(removals=(slab,)))
        for run in release.punches:
            with self._io.opened(run.slab) as descriptor:
                if not self._io.punch(descriptor, run):
                    return
            with self._state:
                self._allocator.commit_release(Release(punches=(run,)))

    # Scanning

    def begin_scan(self) -> list[str]:
        """
        Forget all that is known, and return the files to hand to `scan`, all of them.

        Raises:
            BlockingIOError: If something is being written or erased.
        """
        with self._growing, self._state:
            if self._changes_under_way:
                raise BlockingIOError(
                    errno.EBUSY, f"{self._changes_under_way} calls to the disk have not ended"
                )
            self._is_scanned, self._is_scanning = False, True
            self._allocator = self._allocator.emptied()
            self._index = SlotIndex()
        return self.disk.names(ENDING)

    def scan(self, name: str) -> tuple[list[BlockFrame], int]:
        """
        Learn what a file holds, and remove what a crash or damage left in it.

        Returns:
            The sound frames, and how many entries or files were removed.
        """
        descriptor = self.disk.open(name)
        try:
            slab = self._io.identify(name, descriptor)
            if slab is not None:
                return self._adopt(slab, descriptor)
        finally:
            self.disk.close(descriptor)
        self.reader.forget(name)
        self.disk.remove(name)
        return [], 1

    def end_scan(self) -> None:
        """Let blocks be written, now that all files are known."""
        with self._state:
            self._is_scanned, self._is_scanning = True, False
        self._trim()

    def _adopt(self, slab: Slab, descriptor: int) -> tuple[list[BlockFrame], int]:
        """Count a slab and index its blocks; its other slots become holes."""
        table = self._io.table(slab, descriptor)
        held: dict[Name, tuple[int, BlockFrame]] = {}
        unwanted = table.damaged
        for slot, frame in table.frames:
            name = name_in(frame)
            if name in held or name in self._index:
                unwanted.append(slot)  # a copy is in one place only
            else:
                held[name] = slot, frame
        for run in runs_in(slab, unwanted):
            self._io.zero_entries(descriptor, run)
        used = [slot for slot, _ in held.values()]
        are_others_free = self._io.is_in_excess(slab, descriptor, len(used)) and not all(
            self._io.punch(descriptor, run)
            for run in runs_in(slab, set(range(slab.slots)).difference(used))
        )
        with self._state:
            self._allocator.adopt(slab, used, are_others_free=are_others_free)
            self._index.add(slab, used, held)
        return [frame for _, frame in held.values()], len(unwanted)

    # Looking

    def check(self) -> tuple[int, int] | None:
        """
        Raise what stands in the way of writing.

        Returns:
            What tells the folder from all others; None where slabs are gone from it.
        """
        self.disk.probe()
        with self._growing:
            names = set(self.disk.names(ENDING))
            with self._state:
                is_whole = all(slab.name in names for slab in self._allocator.slabs)
        return self.disk.identity() if is_whole else None

    @property
    def advice(self) -> str:
        """What an operator should know of the file system; empty where it can all."""
        folder = self.disk.folder
        if not self._io.can_punch:
            return f"{folder}: no holes can be punched, so space comes back with whole slabs only"
        if not self.reader.takes_direct:
            return f"{folder}: O_DIRECT is not supported, so the page cache is used"
        return ""

    def close(self) -> None:
        """Close all files, and let others claim the folder."""
        self.reader.close()
        self.disk.let_go()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Count a call that changes slots, so that no scan begins in the middle of it."""
        with self._growing:
            if not (self._is_scanned or self._is_scanning):
                for name in self.begin_scan():
                    self.scan(name)
                self.end_scan()
        with self._state:
            if self._is_scanning:
                raise BlockingIOError(errno.EBUSY, "is being scanned")
            self._changes_under_way += 1
        try:
            yield
        finally:
            with self._state:
                self._changes_under_way -= 1
