"""Tests of `cachenode.disk`."""

import errno
import os
from pathlib import Path

import pytest

from cachenode.disk import Disk


class SmallBites(Disk):
    """A kernel that takes three bytes at a time."""

    def pwritev(self, descriptor, buffers, offset):
        return super().pwritev(descriptor, [memoryview(buffers[0])[:3]], offset)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_a_folder_is_claimed_by_one_node(tmp_path: Path):
    first, second = Disk(tmp_path / "ssd"), Disk(tmp_path / "ssd")
    first.claim()
    with pytest.raises(BlockingIOError):
        second.claim()
    first.let_go()
    second.claim()
    second.let_go()
    second.let_go()


def test_nobody_else_may_read_what_users_said(tmp_path: Path):
    disk = Disk(tmp_path / "ssd")
    disk.claim()
    disk.close(disk.create("a.slab"))
    disk.let_go()
    assert disk.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in disk.folder.iterdir()} == {0o600}


def test_a_folder_that_can_not_be_made_is_told(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory") as refused:
        Disk(tmp_path / "file" / "ssd").claim()
    assert refused.value.errno == errno.ENOTDIR


def test_a_probe_leaves_nothing_behind(disk: Disk):
    disk.probe()
    assert list(disk.folder.iterdir()) == []


def test_a_folder_that_is_gone_is_not_made_anew(disk: Disk):
    disk.folder.rmdir()
    for call in (disk.probe, disk.identity, lambda: disk.create("a"), lambda: disk.names("")):
        with pytest.raises(FileNotFoundError):
            call()
    assert not disk.folder.exists()


def test_names_are_those_of_plain_files_with_the_ending(disk: Disk):
    for name in ("b.slab", "a.slab", "a.txt"):
        (disk.folder / name).touch()
    (disk.folder / "c.slab").mkdir()
    (disk.folder / "d.slab").symlink_to("a.slab")
    assert disk.names(".slab") == ["a.slab", "b.slab"]


def test_a_new_file_is_one_hole(disk: Disk):
    descriptor = disk.create("a", 1 << 20)
    assert disk.sizes(descriptor) == (1 << 20, 0)
    assert disk.read(descriptor, 4, 100) == bytes(4)
    disk.close(descriptor)


def test_a_file_that_can_not_be_that_large_is_closed(disk: Disk):
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match=r"File too large|Invalid argument"):
        disk.create("a", 2**63 - 1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("kind", [Disk, SmallBites])
def test_buffers_are_written_one_after_the_other(tmp_path: Path, kind: type[Disk]):
    disk = kind(tmp_path)
    descriptor = disk.create("a")
    disk.write(descriptor, [b"four", b"", bytearray(b"fives"), memoryview(b"x")], 2)
    disk.close(descriptor)
    descriptor = disk.open("a")
    assert disk.read(descriptor, 100, 0) == b"\0\0fourfivesx"
    disk.close(descriptor)


def test_a_hole_reads_as_zeros_and_takes_no_bytes(disk: Disk):
    descriptor = disk.create("a")
    disk.write(descriptor, [b"x" * 3 * 4096], 0)
    disk.punch(descriptor, 4096, 4096)
    assert disk.sizes(descriptor) == (3 * 4096, 2 * 4096)
    assert disk.read(descriptor, 4096, 4096) == bytes(4096)
    assert disk.read(descriptor, 4096, 8192) == b"x" * 4096
    disk.close(descriptor)


def test_a_hole_that_can_not_be_punched_is_told(disk: Disk):
    descriptor = disk.create("a")
    with pytest.raises(OSError, match="Invalid argument"):
        disk.punch(descriptor, 0, 0)
    disk.close(descriptor)


def test_a_file_that_is_removed_frees_its_bytes_while_others_have_it_open(disk: Disk):
    descriptor = disk.create("a")
    disk.write(descriptor, [b"x" * 4096], 0)
    disk.remove("a")
    assert disk.names("") == []
    assert os.fstat(descriptor).st_blocks == 0
    disk.close(descriptor)


def test_a_file_whose_bytes_can_not_be_freed_at_once_is_removed_all_the_same(tmp_path: Path):
    class Busy(Disk):
        def empty(self, descriptor):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk = Busy(tmp_path)
    disk.close(disk.create("a"))
    disk.remove("a")
    assert disk.names("") == []
