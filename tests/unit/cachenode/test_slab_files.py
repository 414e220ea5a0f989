"""Tests of `cachenode.slab_files`; what happens at each byte and call is in the scenarios."""

import errno
import os
from pathlib import Path
from threading import Event

import pytest

from cachenode.disk import Disk
from cachenode.slab_files import SlabFiles
from cachenode.slab_format import Slab, decode_header, encode_entry, encode_header
from cachenode.store import CopyWrite
from hearthkv.core.direct_path import FileAddress
from hearthkv.core.tier import Tier
from tests.slab_rig import (
    OTHER_SPEC,
    SPEC,
    FullDisk,
    bytes_on_disk,
    erase,
    frame_of,
    payload_of,
    read,
    scan,
    slab_files,
    slabs_in,
    write,
)

SLOT_BYTES = 8192
FRAME_BYTES = 8192


class NoHoles(Disk):
    """A file system that can't punch holes."""

    def punch(self, descriptor: int, offset: int, size_bytes: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


@pytest.fixture
def files(tmp_path: Path) -> SlabFiles:
    return slab_files(tmp_path)


def test_blocks_of_a_batch_lie_next_to_each_other(files: SlabFiles):
    assert write(files, range(3)) == [None] * 3
    (path,) = slabs_in(files.disk.folder)
    assert files.locate([frame_of(number).ref(Tier.SSD) for number in range(4)]) == [
        FileAddress(path.name, FRAME_BYTES),
        FileAddress(path.name, FRAME_BYTES + SLOT_BYTES),
        FileAddress(path.name, FRAME_BYTES + 2 * SLOT_BYTES),
        None,
    ]
    assert path.read_bytes()[FRAME_BYTES:].startswith(payload_of(0))


def test_a_batch_of_two_namespaces_goes_to_two_slabs(files: SlabFiles):
    writes = [
        CopyWrite(frame_of(number, spec), payload_of(number, spec))
        for number in range(3)
        for spec in (SPEC, OTHER_SPEC)
    ]
    assert files.write(writes, Event()) == [None] * 6
    assert len(slabs_in(files.disk.folder)) == 2
    for number in range(3):
        for spec in (SPEC, OTHER_SPEC):
            assert read(files, number, spec) == payload_of(number, spec)


def test_what_is_counted_is_what_the_disk_takes(files: SlabFiles):
    assert files.disk_bytes == 0
    write(files, range(5))
    assert files.disk_bytes == FRAME_BYTES + 5 * SLOT_BYTES == bytes_on_disk(files.disk.folder)
    erase(files, [1])
    assert files.disk_bytes == FRAME_BYTES + 5 * SLOT_BYTES  # the slot waits for another block
    write(files, [9])
    assert files.disk_bytes == FRAME_BYTES + 5 * SLOT_BYTES == bytes_on_disk(files.disk.folder)
    erase(files, range(10))
    assert files.disk_bytes == 0 == bytes_on_disk(files.disk.folder)


def test_a_scan_finds_the_blocks_and_gives_back_the_other_slots(files: SlabFiles):
    write(files, range(5))
    erase(files, [1, 3])
    again = slab_files(files.disk)
    assert scan(again) == ({(SPEC, 0), (SPEC, 2), (SPEC, 4)}, 0)
    assert again.disk_bytes == FRAME_BYTES + 3 * SLOT_BYTES == bytes_on_disk(files.disk.folder)
    assert [read(again, number) is not None for number in range(5)] == [True, False] * 2 + [True]


def test_what_is_written_before_any_scan_does_not_hide_what_is_there(files: SlabFiles):
    write(files, range(3))
    again = slab_files(files.disk)
    write(again, [7])
    assert [read(again, number) is not None for number in (0, 2, 7)] == [True] * 3
    assert len(slabs_in(files.disk.folder)) == 1


def test_a_block_that_is_not_there_is_erased_all_the_same(files: SlabFiles):
    erase(files, [1])
    write(files, [1])
    erase(files, [1, 1, 2])
    assert slabs_in(files.disk.folder) == []


def test_what_is_no_slab_of_ours_is_removed_and_what_is_not_ours_is_left(tmp_path: Path):
    write(slab_files(tmp_path), range(3))
    (sound,) = slabs_in(tmp_path)
    stored = sound.read_bytes()
    for name, content in {
        "empty.slab": b"",
        "renamed-1.slab": stored,
        "version.slab": stored[:8] + b"\2" + stored[9:],
        f"{SPEC.namespace_id.hex()}-ff.slab": encode_header(Slab(255, SPEC, 16)),
    }.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "note.txt").touch()
    (tmp_path / "folder.slab").mkdir()

    assert scan(slab_files(tmp_path)) == ({(SPEC, 0), (SPEC, 1), (SPEC, 2)}, 4)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == sorted([sound.name, "folder.slab", "note.txt"])


def test_of_two_entries_of_one_copy_one_is_kept(tmp_path: Path):
    write(slab_files(tmp_path), [0])
    (path,) = slabs_in(tmp_path)
    slab = decode_header(path.read_bytes())
    with path.open("r+b") as stored:
        stored.seek(slab.entry_offset(5))
        stored.write(encode_entry(slab, 5, frame_of(0)))
    files = slab_files(tmp_path)
    assert scan(files) == ({(SPEC, 0)}, 1)
    assert read(files, 0) == payload_of(0)
    assert scan(files) == ({(SPEC, 0)}, 0)


def test_slots_of_one_namespace_serve_another_under_pressure(tmp_path: Path):
    limit_bytes = 2 * FRAME_BYTES + 8 * SLOT_BYTES
    files = slab_files(tmp_path, limit_bytes=limit_bytes)
    write(files, range(8))
    erase(files, range(6))
    assert write(files, range(12), OTHER_SPEC) == [None] * 12
    assert files.disk_bytes == limit_bytes == bytes_on_disk(tmp_path)
    assert all(read(files, number) == payload_of(number) for number in (6, 7))


def test_without_holes_space_comes_back_with_whole_slabs(tmp_path: Path):
    files = slab_files(NoHoles(tmp_path), limit_bytes=2 * FRAME_BYTES + 8 * SLOT_BYTES)
    assert files.advice == ""
    write(files, range(8))
    erase(files, range(6))
    outcomes = write(files, range(3), OTHER_SPEC)
    assert [outcome.errno for outcome in outcomes if outcome] == [errno.ENOSPC] * 3
    assert "no holes can be punched" in files.advice
    again = slab_files(NoHoles(tmp_path), limit_bytes=files.limit_bytes)
    scan(again)
    assert again.disk_bytes >= bytes_on_disk(tmp_path)
    erase(files, range(8))
    assert write(files, range(3), OTHER_SPEC) == [None] * 3


def test_a_file_system_without_o_direct_is_told(tmp_path: Path):
    files = slab_files(tmp_path, is_direct=True)
    assert files.advice == ""
    files.reader.takes_direct = False
    assert "O_DIRECT is not supported" in files.advice


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_that_fails_keeps_nothing_of_what_it_refused(tmp_path: Path, number: int):
    disk = FullDisk(tmp_path)
    files = slab_files(disk)
    write(files, range(3))
    before = files.disk_bytes
    disk.error_number = number
    for spec in (SPEC, OTHER_SPEC):
        outcomes = write(files, range(10, 12), spec)
        assert [outcome.errno for outcome in outcomes if outcome] == [number] * 2
    with pytest.raises(OSError, match=os.strerror(number)):
        erase(files, [0])
    assert files.disk_bytes == before == bytes_on_disk(tmp_path)
    disk.error_number = 0
    erase(files, [0])
    assert [read(files, number) is not None for number in (0, 1, 2, 10)] == [
        False,
        True,
        True,
        False,
    ]
    assert scan(files)[0] == {(SPEC, 1), (SPEC, 2)}


def test_a_disk_that_is_full_below_the_limit_still_takes_what_fits_into_free_slots(
    tmp_path: Path,
):
    class NoNewBytes(Disk):
        """Takes what overwrites bytes, and nothing that needs more of them."""

        is_full = False

        def pwritev(self, descriptor, buffers, offset):
            size_bytes = sum(map(len, buffers))
            try:
                hole = os.lseek(descriptor, offset, os.SEEK_HOLE)
            except OSError:
                hole = offset
            if self.is_full and hole < offset + size_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().pwritev(descriptor, buffers, offset)

    disk = NoNewBytes(tmp_path)
    files = slab_files(disk)
    write(files, range(9))
    disk.is_full = True
    erase(files, [1, 4, 5, 7])
    outcomes = write(files, range(20, 26))
    assert [outcome is None for outcome in outcomes] == [True] * 4 + [False] * 2
    assert [read(files, number) is not None for number in range(20, 26)] == [
        outcome is None for outcome in outcomes
    ]
    assert files.disk_bytes == FRAME_BYTES + 9 * SLOT_BYTES == bytes_on_disk(tmp_path)


def test_no_scan_begins_in_the_middle_of_a_change(files: SlabFiles):
    with files._changing(), pytest.raises(BlockingIOError, match="1 calls to the disk"):
        files.begin_scan()
    assert files.begin_scan() == []
    with pytest.raises(BlockingIOError, match="is being scanned"):
        write(files, [1])


def test_a_look_tells_the_folder_and_misses_slabs(files: SlabFiles):
    write(files, [1])
    assert files.check() == files.disk.identity()
    slabs_in(files.disk.folder)[0].unlink()
    assert files.check() is None


def test_the_folder_can_be_claimed_again_once_the_files_are_closed(tmp_path: Path):
    files = slab_files(tmp_path)
    files.disk.claim()
    files.close()
    Disk(tmp_path).claim()
