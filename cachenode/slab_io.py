"""What is done to one slab file: it is made, written, cleaned, punched, read. Blocking calls."""

import errno
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from cachenode.disk import Buffer, Disk
from cachenode.slab_allocator import SlotRun
from cachenode.slab_format import (
    ENTRY_BYTES,
    HEADER_BYTES,
    Slab,
    Table,
    decode_header,
    decode_table,
    encode_entry,
    encode_header,
)
from cachenode.store import CopyWrite
from hearthkv.core.errors import FrameError

RUN_BLOCKS_MAX: Final = 256
"""Blocks of one system call; with a pad each that is half of what Linux takes."""


class SlabIo:
    """Works on the slab files of a disk, each for itself. Every method may raise OSError."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.can_punch = True
        """False once the file system refused to punch a hole."""

    @contextmanager
    def opened(self, slab: Slab) -> Iterator[int]:
        """Open a slab's file for a while."""
        descriptor = self.disk.open(slab.name)
        try:
            yield descriptor
        finally:
            self.disk.close(descriptor)

    def make(self, slab: Slab) -> None:
        """Make a slab's file: header, table, and one hole. On failure nothing is left of it."""
        try:
            descriptor = self.disk.create(slab.name, slab.file_bytes)
            try:
                # The table takes its bytes now, so that what a slab takes is known from here on.
                table = bytes(slab.frame_bytes - HEADER_BYTES)
                self.disk.write(descriptor, [encode_header(slab), table], 0)
            finally:
                self.disk.close(descriptor)
        except OSError:
            with suppress(OSError):
                self.disk.remove(slab.name)
            raise

    def write(
        self, run: SlotRun, writes: Sequence[CopyWrite], is_given_up: threading.Event
    ) -> None:
        """Write payloads to a run of slots, and then, unless they were given up, their entries."""
        slab = run.slab
        with self.opened(slab) as descriptor:
            self._write_payloads(descriptor, run, writes)
            if is_given_up.is_set():
                raise OSError(errno.ECANCELED, "the write was given up")
            entries = [
                encode_entry(slab, run.first + at, write.frame) for at, write in enumerate(writes)
            ]
            self.disk.write(descriptor, [b"".join(entries)], slab.entry_offset(run.first))

    def _write_payloads(self, descriptor: int, run: SlotRun, writes: Sequence[CopyWrite]) -> None:
        slab = run.slab
        pad = bytes(slab.slot_bytes - slab.spec.block_bytes)
        for at in range(0, len(writes), RUN_BLOCKS_MAX):
            buffers: list[Buffer] = []
            for write in writes[at : at + RUN_BLOCKS_MAX]:
                # One byte more or less, and all blocks behind it would lie in the wrong place.
                assert len(write.payload) == slab.spec.block_bytes
                buffers.append(write.payload)
                if pad:
                    buffers.append(pad)
            self.disk.write(descriptor, buffers, slab.payload_offset(run.first + at))

    def zero_entries(self, descriptor: int, run: SlotRun) -> None:
        """Make the entries of a run say that its slots are empty."""
        zeros = bytes(ENTRY_BYTES * run.count)
        self.disk.write(descriptor, [zeros], run.slab.entry_offset(run.first))

    def punch(self, descriptor: int, run: SlotRun) -> bool:
        """Make a hole of a run of slots; False where the file system has none."""
        slab = run.slab
        if self.can_punch:
            try:
                self.disk.punch(
                    descriptor, slab.payload_offset(run.first), run.count * slab.slot_bytes
                )
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise
                self.can_punch = False
        return self.can_punch

    def identify(self, name: str, descriptor: int) -> Slab | None:
        """The slab that a file is; None where name, header or length are not as they must be."""
        try:
            slab = decode_header(self.disk.read(descriptor, HEADER_BYTES, 0))
        except FrameError:
            return None
        is_whole = self.disk.sizes(descriptor)[0] == slab.file_bytes
        return slab if is_whole and slab.name == name else None

    def table(self, slab: Slab, descriptor: int) -> Table:
        """Read a slab's table."""
        stored = self.disk.read(descriptor, slab.frame_bytes - HEADER_BYTES, HEADER_BYTES)
        try:
            return decode_table(slab, stored)
        except FrameError as error:  # somebody cut the file just now
            raise OSError(errno.EIO, f"{slab.name}: {error}") from error

    def is_in_excess(self, slab: Slab, descriptor: int, used: int) -> bool:
        """Whether a file takes more on disk than its frame and its used slots."""
        disk_bytes = self.disk.sizes(descriptor)[1]
        return disk_bytes > slab.frame_bytes + used * slab.slot_bytes
