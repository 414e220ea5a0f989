"""Tests of `cachenode.slab_io`."""

import errno
import os
from pathlib import Path
from threading import Event

import pytest

from cachenode.disk import Disk
from cachenode.slab_allocator import SlotRun
from cachenode.slab_format import Slab, encode_header
from cachenode.slab_io import RUN_BLOCKS_MAX, SlabIo
from cachenode.store import CopyWrite
from tests.slab_rig import OTHER_SPEC, FullDisk, frame_of, payload_of

SLAB = Slab(3, OTHER_SPEC, 1024)


def writes(count: int) -> list[CopyWrite]:
    return [
        CopyWrite(frame_of(number, OTHER_SPEC), payload_of(number, OTHER_SPEC))
        for number in range(count)
    ]


@pytest.fixture
def io(tmp_path: Path) -> SlabIo:
    io = SlabIo(Disk(tmp_path))
    io.make(SLAB)
    return io


def test_a_new_slab_takes_its_frame_and_one_hole(io: SlabIo):
    with io.opened(SLAB) as descriptor:
        assert io.disk.sizes(descriptor) == (SLAB.file_bytes, SLAB.frame_bytes)
        assert not io.is_in_excess(SLAB, descriptor, 0)
        assert io.identify(SLAB.name, descriptor) == SLAB
        assert io.table(SLAB, descriptor).frames == []


def test_a_slab_that_can_not_be_made_leaves_nothing(tmp_path: Path):
    disk = FullDisk(tmp_path)
    disk.error_number = errno.ENOSPC
    with pytest.raises(OSError, match="No space left"):
        SlabIo(disk).make(SLAB)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [1, RUN_BLOCKS_MAX, 2 * RUN_BLOCKS_MAX + 1])
def test_blocks_lie_slot_by_slot_with_their_entries(io: SlabIo, count: int):
    io.write(SlotRun(SLAB, 5, count), writes(count), Event())
    with io.opened(SLAB) as descriptor:
        frames = io.table(SLAB, descriptor).frames
        assert frames == [(5 + number, frame_of(number, OTHER_SPEC)) for number in range(count)]
        last = io.disk.read(descriptor, 100, SLAB.payload_offset(5 + count - 1))
        assert last == payload_of(count - 1, OTHER_SPEC)


def test_a_write_that_was_given_up_gets_no_entry(io: SlabIo):
    is_given_up = Event()
    is_given_up.set()
    with pytest.raises(OSError, match="given up"):
        io.write(SlotRun(SLAB, 0, 1), writes(1), is_given_up)
    with io.opened(SLAB) as descriptor:
        assert io.table(SLAB, descriptor).frames == []
        assert io.is_in_excess(SLAB, descriptor, 0)
        assert not io.is_in_excess(SLAB, descriptor, 1)


def test_slots_are_emptied_and_given_back(io: SlabIo):
    io.write(SlotRun(SLAB, 0, 3), writes(3), Event())
    with io.opened(SLAB) as descriptor:
        io.zero_entries(descriptor, SlotRun(SLAB, 1, 2))
        assert [slot for slot, _ in io.table(SLAB, descriptor).frames] == [0]
        assert io.punch(descriptor, SlotRun(SLAB, 1, 2))
        assert not io.is_in_excess(SLAB, descriptor, 1)


def test_a_file_system_without_holes_is_asked_once(tmp_path: Path):
    class NoHoles(Disk):
        asked = 0

        def punch(self, descriptor, offset, size_bytes):
            self.asked += 1
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    disk = NoHoles(tmp_path)
    io = SlabIo(disk)
    io.make(SLAB)
    with io.opened(SLAB) as descriptor:
        assert [io.punch(descriptor, SlotRun(SLAB, 0, 1)) for _ in range(2)] == [False, False]
    assert (disk.asked, io.can_punch) == (1, False)


def test_a_hole_that_fails_for_another_reason_is_told(tmp_path: Path):
    io = SlabIo(Disk(tmp_path))
    io.make(SLAB)
    with io.opened(SLAB) as descriptor, pytest.raises(OSError, match="Invalid argument"):
        io.punch(descriptor, SlotRun(SLAB, 0, 0))
    assert io.can_punch


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(encode_header(SLAB), id="cut"),
        pytest.param(b"x" * 8192, id="foreign"),
    ],
)
def test_what_is_no_whole_slab_is_none(io: SlabIo, content: bytes):
    (io.disk.folder / SLAB.name).write_bytes(content)
    with io.opened(SLAB) as descriptor:
        assert io.identify(SLAB.name, descriptor) is None


def test_a_slab_of_another_name_is_none(io: SlabIo):
    with io.opened(SLAB) as descriptor:
        assert io.identify("00-3.slab", descriptor) is None


def test_a_table_that_was_cut_just_now_is_an_error_of_the_disk(io: SlabIo):
    with io.opened(SLAB) as descriptor:
        os.ftruncate(descriptor, 5000)
        with pytest.raises(OSError, match="table is 904 bytes"):
            io.table(SLAB, descriptor)
