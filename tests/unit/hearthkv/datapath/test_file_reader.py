"""Tests of `hearthkv.datapath.file_reader`."""

import errno
import mmap
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hearthkv.core.direct_path import FileAddress
from hearthkv.datapath.file_reader import (
    BOUNCE_BYTES,
    BOUNCES_MAX,
    FileReader,
    ReadGuard,
    is_aligned,
)
from hearthkv.datapath.file_reads import FileRead, FileRun, runs_of

STORED = os.urandom(3 * BOUNCE_BYTES)


def never_given_up() -> ReadGuard:
    return ReadGuard()


def no_guard() -> None:
    return None


def run_at(offset: int, *sizes: int, name: str = "a") -> FileRun:
    """A run of parts of these sizes, each with memory of its own."""
    reads = []
    for size in sizes:
        reads.append(FileRead(FileAddress(name, offset), memoryview(bytearray(size))))
        offset += size
    (run,) = runs_of(reads, run_bytes_max=1 << 40)
    return run


def aligned_run(offset: int, size: int) -> FileRun:
    into = memoryview(mmap.mmap(-1, size))
    (run,) = runs_of([FileRead(FileAddress("a", offset), into)])
    return run


def bytes_of(run: FileRun) -> bytes:
    return b"".join(run.parts)


class SmallBites(FileReader):
    """A kernel that gives a page at most."""

    def preadv(self, descriptor, parts, offset, flags=0):
        return super().preadv(descriptor, [parts[0][:4096]], offset, flags)


class NothingCached(FileReader):
    """A kernel that has nothing in memory, or can't say so."""

    error_number = errno.EAGAIN

    def preadv(self, descriptor, parts, offset, flags=0):
        if flags:
            raise OSError(self.error_number, os.strerror(self.error_number))
        return super().preadv(descriptor, parts, offset)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").write_bytes(STORED)
    return tmp_path


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("guard", [no_guard, never_given_up])
@pytest.mark.parametrize("kind", [FileReader, SmallBites, NothingCached])
@pytest.mark.parametrize("is_direct", [False, True], ids=["cached", "direct"])
@pytest.mark.parametrize(
    "span",
    [
        pytest.param((4096, 4096, 8192), id="pages"),
        pytest.param((4096, 100), id="part-of-a-page"),
        pytest.param((100, 1, 5000, 3), id="odd"),
        pytest.param((0, BOUNCE_BYTES + 1, 4096, BOUNCE_BYTES), id="more-than-a-bounce"),
        pytest.param((len(STORED) - 10, 10), id="to-the-end"),
    ],
)
def test_a_run_is_read(
    folder: Path,
    span: tuple[int, ...],
    is_direct: bool,
    kind: type[FileReader],
    guard: Callable[[], ReadGuard | None],
):
    offset, *sizes = span
    reader = kind(folder, is_direct=is_direct)
    run = run_at(offset, *sizes)
    assert reader.read(run, guard()) == sum(sizes)
    assert bytes_of(run) == STORED[offset : offset + sum(sizes)]
    reader.close()


@pytest.mark.parametrize("guard", [no_guard, never_given_up])
@pytest.mark.parametrize("is_direct", [False, True], ids=["cached", "direct"])
@pytest.mark.parametrize("beyond", [0, 5000])
def test_a_file_that_ends_fills_what_there_is(
    folder: Path, beyond: int, is_direct: bool, guard: Callable[[], ReadGuard | None]
):
    reader = FileReader(folder, is_direct=is_direct)
    run = run_at(len(STORED) + beyond - 10, 20)
    assert reader.read(run, guard()) == max(0, 10 - beyond)
    assert bytes_of(run).startswith(STORED[len(STORED) + beyond - 10 :])
    reader.close()


def test_aligned_memory_is_filled_straight_past_the_page_cache(folder: Path):
    reader = FileReader(folder, is_direct=True)
    run = aligned_run(4096, 8192)
    assert reader.read(run) == 8192
    assert bytes_of(run) == STORED[4096 : 4096 + 8192]
    assert reader._bounces == []
    reader.close()


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        pytest.param(aligned_run(4096, 8192), True, id="all-aligned"),
        pytest.param(aligned_run(100, 8192), False, id="offset"),
        pytest.param(
            FileRun(FileAddress("a", 0), (memoryview(mmap.mmap(-1, 8192))[:5000],), (0,), 5000),
            False,
            id="length",
        ),
        pytest.param(
            FileRun(
                FileAddress("a", 0), (memoryview(mmap.mmap(-1, 8192))[64 : 64 + 4096],), (0,), 4096
            ),
            False,
            id="memory",
        ),
    ],
)
def test_what_o_direct_can_fill(run: FileRun, expected: bool):
    assert is_aligned(run) is expected


def test_a_file_system_without_o_direct_is_read_through_the_page_cache(folder: Path):
    class WithoutDirect(FileReader):
        def open(self, path, flags):
            if flags & os.O_DIRECT:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return super().open(path, flags)

    reader = WithoutDirect(folder, is_direct=True)
    run = run_at(0, 5000)
    assert reader.read(run) == 5000
    assert bytes_of(run) == STORED[:5000]
    assert not reader.takes_direct
    reader.close()


@pytest.mark.parametrize("is_direct", [False, True])
def test_a_missing_file_is_told(folder: Path, is_direct: bool):
    with pytest.raises(FileNotFoundError):
        FileReader(folder, is_direct=is_direct).read(run_at(0, 1, name="b"))


def test_an_error_of_the_disk_is_told_and_leaves_no_descriptor(folder: Path):
    reader = NothingCached(folder, is_direct=False)
    reader.error_number = errno.EIO
    before = descriptors()
    with pytest.raises(OSError, match="Input/output error"):
        reader.read(run_at(0, 10), ReadGuard())
    reader.close()
    assert descriptors() == before


def test_a_file_system_that_can_not_say_what_is_in_memory_is_read_all_the_same(folder: Path):
    reader = NothingCached(folder, is_direct=False)
    reader.error_number = errno.EOPNOTSUPP
    run = run_at(0, 5000)
    assert reader.read(run, ReadGuard()) == 5000
    assert bytes_of(run) == STORED[:5000]
    reader.close()


@pytest.mark.parametrize("kind", [FileReader, NothingCached])
def test_nothing_is_written_to_memory_that_was_taken_back(folder: Path, kind: type[FileReader]):
    reader, guard, run = kind(folder, is_direct=False), ReadGuard(), run_at(0, 5000)
    guard.give_up()
    assert reader.read(run, guard) == 0
    assert bytes_of(run) == bytes(5000)
    reader.close()


def test_a_file_is_opened_once(folder: Path):
    reader = FileReader(folder, is_direct=False)
    before = descriptors()
    for offset in range(10):
        reader.read(run_at(offset, 10))
    assert descriptors() == before + 1
    reader.close()
    assert descriptors() == before


def test_a_file_that_got_shorter_is_opened_anew(folder: Path):
    reader = FileReader(folder, is_direct=False)
    reader.read(run_at(0, 10))
    os.truncate(folder / "a", 0)
    (folder / "a").unlink()
    (folder / "a").write_bytes(b"another of its name")
    assert reader.read(run_at(0, 10)) == 0
    run = run_at(0, 10)
    assert reader.read(run) == 10
    assert bytes_of(run) == b"another of"
    reader.close()


def test_no_more_files_stay_open_than_may(folder: Path):
    reader = FileReader(folder, is_direct=False, descriptors_max=3)
    before = descriptors()
    for number in range(6):
        (folder / str(number)).write_bytes(b"x")
        reader.read(run_at(0, 1, name=str(number)))
    assert list(reader._open) == ["3", "4", "5"]
    reader.read(run_at(0, 1, name="3"))
    reader.read(run_at(0, 1, name="a"))
    assert list(reader._open) == ["5", "3", "a"]
    assert descriptors() == before + 3
    reader.close()


def test_a_file_that_is_being_read_is_closed_after_its_last_reader(folder: Path):
    class ForgottenMeanwhile(FileReader):
        def preadv(self, descriptor, parts, offset, flags=0):
            self.forget("a")
            return super().preadv(descriptor, parts, offset, flags)

    reader = ForgottenMeanwhile(folder, is_direct=False)
    before = descriptors()
    assert reader.read(run_at(0, 10)) == 10
    assert descriptors() == before


def test_of_two_who_open_a_file_at_once_one_keeps_it(folder: Path):
    class BothOpen(FileReader):
        """While one opens the file, another has done so."""

        def _open_file(self, name):
            opened = super()._open_file(name)
            self._open[name] = super()._open_file(name)
            return opened

    reader = BothOpen(folder, is_direct=False)
    before = descriptors()
    assert reader.read(run_at(0, 10)) == 10
    assert descriptors() == before + 1
    reader.close()
    assert descriptors() == before


def test_many_threads_read_at_once(folder: Path):
    reader = NothingCached(folder, is_direct=True)
    runs = [run_at(offset, 100_000) for offset in range(0, 40 * 4096, 4096)]
    with ThreadPoolExecutor(8) as pool:
        filled = list(pool.map(lambda run: reader.read(run, ReadGuard()), runs))
    assert filled == [100_000] * 40
    assert all(
        bytes_of(run) == STORED[run.start.offset : run.start.offset + 100_000] for run in runs
    )
    assert len(reader._bounces) <= BOUNCES_MAX
    reader.close()
