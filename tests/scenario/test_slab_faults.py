"""A slab file damaged at each of its bytes, and work on it cut off or failing at each call."""

import errno
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from cachenode.disk import Disk
from cachenode.slab_files import SlabFiles
from hearthkv.core.namespace import NamespaceSpec
from tests.slab_rig import (
    OTHER_SPEC,
    SPEC,
    FragileDisk,
    Killed,
    bytes_on_disk,
    erase,
    payload_of,
    read,
    scan,
    slab_files,
    slabs_in,
    write,
)

FRAME_BYTES = 4096 + 16 * 256
BLOCKS = {(OTHER_SPEC, number) for number in range(3)}
LIMIT_BYTES = 2 * FRAME_BYTES + 12 * 4096


class KeepingDisk(Disk):
    """Removes a name, and leaves the bytes to the file's other names."""

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()


@pytest.fixture
def slab(tmp_path: Path) -> Path:
    """A slab with three small blocks."""
    write(slab_files(tmp_path), range(3), OTHER_SPEC)
    (path,) = slabs_in(tmp_path)
    return path


def found_in(folder: Path) -> set[tuple[NamespaceSpec, int]]:
    """The blocks that a new start finds, each with the right bytes when it is read (I1)."""
    files = slab_files(KeepingDisk(folder))
    found, _ = scan(files)
    assert found <= BLOCKS
    right = set()
    for spec, number in found:
        payload = read(files, number, spec)
        assert payload in (None, payload_of(number, spec))
        if payload is not None:
            right.add((spec, number))
    files.close()
    return right


def test_a_flip_of_any_byte_costs_no_more_than_it_touches(slab: Path):
    stored, again = slab.read_bytes(), slab.with_name("again")
    slab.rename(again)  # a scan that finds the header damaged removes the slab
    descriptor = os.open(again, os.O_RDWR)
    payloads = (FRAME_BYTES + 4096 * slot for slot in range(3))
    places = [range(start, start + OTHER_SPEC.block_bytes) for start in payloads]
    for at in chain(range(FRAME_BYTES), *places):
        os.pwrite(descriptor, bytes((stored[at] ^ (1 << at % 8),)), at)
        os.link(again, slab)
        right = found_in(slab.parent)
        if at < 4096:
            assert right == set()
        elif at < FRAME_BYTES:
            assert right == BLOCKS - {(OTHER_SPEC, (at - 4096) // 256)}
        else:
            assert right == BLOCKS - {(OTHER_SPEC, (at - FRAME_BYTES) // 4096)}
        slab.unlink(missing_ok=True)
        os.pwrite(descriptor, stored[: FRAME_BYTES + 3 * 4096], 0)  # the scan cleaned up, too
    os.close(descriptor)


def test_a_slab_that_was_cut_anywhere_holds_nothing(slab: Path):
    size_bytes, again = slab.stat().st_size, slab.with_name("again")
    slab.rename(again)
    edges = range(0, size_bytes, 4096)
    cuts = {*range(FRAME_BYTES + 4096), *edges, *(edge + 4095 for edge in edges)}
    for at in sorted(cuts, reverse=True):  # what is cut off later is all one to a scan
        os.truncate(again, at)
        os.link(again, slab)
        assert found_in(slab.parent) == set()
        assert not slab.exists()


class Story:
    """Writes and erasures in a small tier, and what was acknowledged of them."""

    def __init__(self, files: SlabFiles) -> None:
        self.files = files
        self.held: set[tuple[NamespaceSpec, int]] = set()
        self.in_doubt: set[tuple[NamespaceSpec, int]] = set()
        """What an operation that has not ended may have left or taken."""

    def play(self) -> None:
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """One operation after the other; they fill the tier, and make it punch and remove."""
        yield self.write(SPEC, 0, 4)
        yield self.erase(SPEC, 1, 3)
        yield self.write(OTHER_SPEC, 0, 4)
        yield self.write(SPEC, 4, 5)
        yield self.write(OTHER_SPEC, 4, 7)  # needs a slot that SPEC has free
        yield self.erase(OTHER_SPEC, 0, 7)  # leaves a slab without a block
        yield self.write(SPEC, 5, 7)
        yield self.erase(SPEC, 0, 7)
        yield self.write(OTHER_SPEC, 7, 9)

    def write(self, spec: NamespaceSpec, first: int, end: int) -> None:
        blocks = [(spec, number) for number in range(first, end)]
        self.in_doubt = set(blocks)
        outcomes = write(self.files, range(first, end), spec)
        stored = {block for block, error in zip(blocks, outcomes, strict=True) if error is None}
        self.held |= stored
        self.in_doubt = set()
        # As a node does: what was not stored is erased, for it may be there.
        refused = [number for _, number in set(blocks) - stored]
        if refused:
            erase(self.files, refused, spec)

    def erase(self, spec: NamespaceSpec, first: int, end: int) -> None:
        blocks = {(spec, number) for number in range(first, end)}
        self.in_doubt = blocks & self.held
        self.held -= blocks
        try:
            erase(self.files, range(first, end), spec)
        except OSError:  # as a node does: once more, later
            erase(self.files, range(first, end), spec)
        self.in_doubt = set()


def assert_all_right(story: Story, folder: Path) -> None:
    """What a new start finds is what was acknowledged, to the byte (I1, I3, I4)."""
    again = slab_files(folder, limit_bytes=LIMIT_BYTES)
    found, _ = scan(again)
    assert story.held <= found <= story.held | story.in_doubt
    for spec, number in found:
        payload = read(again, number, spec)
        assert payload == payload_of(number, spec)
    assert bytes_on_disk(folder) == again.disk_bytes <= LIMIT_BYTES
    for spec, number in found:
        erase(again, [number], spec)
    assert (again.disk_bytes, slabs_in(folder)) == (0, [])
    again.close()


def calls_of_the_story(folder: Path) -> int:
    disk = FragileDisk(folder, 10**9, Killed())
    story = Story(slab_files(disk, limit_bytes=LIMIT_BYTES))
    story.play()
    assert_all_right(story, folder)
    assert story.held == {(OTHER_SPEC, 7), (OTHER_SPEC, 8)}
    return disk.calls


def test_a_kill_at_any_call_costs_nothing_that_was_acknowledged(tmp_path: Path):
    (tmp_path / "whole").mkdir()
    for fails_at in range(calls_of_the_story(tmp_path / "whole")):
        folder = tmp_path / str(fails_at)
        folder.mkdir()
        disk = FragileDisk(folder, fails_at, Killed())
        story = Story(slab_files(disk, limit_bytes=LIMIT_BYTES))
        with pytest.raises(Killed):
            story.play()
        assert bytes_on_disk(folder) <= LIMIT_BYTES
        assert_all_right(story, folder)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_failure_of_any_call_leaks_nothing_and_loses_nothing(tmp_path: Path, number: int):
    (tmp_path / "whole").mkdir()
    for fails_at in range(calls_of_the_story(tmp_path / "whole")):
        folder = tmp_path / str(fails_at)
        folder.mkdir()
        disk = FragileDisk(folder, fails_at, OSError(number, os.strerror(number)))
        files = slab_files(disk, limit_bytes=LIMIT_BYTES)
        story = Story(files)
        for _ in story.steps():
            assert bytes_on_disk(folder) <= files.disk_bytes <= LIMIT_BYTES
            assert all(read(files, number, spec) is not None for spec, number in story.held)
        assert disk.has_failed
        assert_all_right(story, folder)
