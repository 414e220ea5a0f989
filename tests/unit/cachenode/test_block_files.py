"""Tests of `cachenode.block_files`."""

import errno
from pathlib import Path

import pytest

from cachenode.block_files import BlockFiles
from hearthkv.core.block_frame import FRAME_BYTES, BlockFrame, encode_frame
from hearthkv.core.checksum import block_checksum
from hearthkv.core.errors import FrameError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier

SPEC = NamespaceSpec(b"n" * 16, 16, 100)
PAYLOAD = bytes(range(100))


def frame(number: int, sequence: int = 1) -> BlockFrame:
    key = bytes([number]) * 16
    return BlockFrame(SPEC, key, b"", block_checksum(SPEC.namespace_id, key, PAYLOAD), sequence)


class SmallBites(BlockFiles):
    """A disk that takes a few bytes at a time."""

    def write_all(self, descriptor: int, frame: bytes, payload: memoryview) -> None:
        for at in range(0, len(frame), 50):
            super().write_all(descriptor, frame[at : at + 50], memoryview(b""))
        super().write_all(descriptor, b"", payload)


@pytest.fixture
def files(tmp_path: Path) -> BlockFiles:
    return BlockFiles(tmp_path)


def test_a_block_lies_in_a_file_that_says_which_it_is(files: BlockFiles):
    files.write(frame(1, sequence=255), PAYLOAD)
    (path,) = files.folder.rglob("*.block")
    assert path.relative_to(files.folder).parts == (
        "6e" * 16,
        "01",
        f"{'01' * 16}-ff.block",
    )
    assert path.read_bytes() == encode_frame(frame(1, sequence=255)) + PAYLOAD
    assert path.stat().st_mode & 0o077 == 0  # nobody else may read what users said


def test_a_block_is_read_back(files: BlockFiles):
    files.write(frame(1), PAYLOAD)
    assert files.read(frame(1).ref(Tier.SSD)) == PAYLOAD


def test_a_disk_that_takes_small_bites_gets_the_whole_block(tmp_path: Path):
    files = SmallBites(tmp_path)
    files.write(frame(1), PAYLOAD)
    assert files.read(frame(1).ref(Tier.SSD)) == PAYLOAD


def test_another_copy_is_another_file(files: BlockFiles):
    files.write(frame(1, sequence=1), PAYLOAD)
    with pytest.raises(FileNotFoundError):
        files.read(frame(1, sequence=2).ref(Tier.SSD))


def test_a_file_that_was_cut_is_not_the_block(files: BlockFiles):
    files.write(frame(1), PAYLOAD)
    (path,) = files.folder.rglob("*.block")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FrameError, match="payload is 99 bytes"):
        files.read(frame(1).ref(Tier.SSD))


def test_a_folder_that_is_gone_is_not_made_anew(files: BlockFiles):
    files.folder.rmdir()
    with pytest.raises(FileNotFoundError):
        files.write(frame(1), PAYLOAD)
    assert not files.folder.exists()


def test_a_scan_removes_what_is_no_block_and_leaves_what_is_not_ours(files: BlockFiles):
    for number in range(4):
        files.write(frame(number), PAYLOAD)
    whole, cut, renamed, damaged = sorted(files.folder.rglob("*.block"))
    cut.write_bytes(cut.read_bytes()[:-1])
    renamed.rename(renamed.with_name("00-0.block"))
    damaged.write_bytes(b"x" * (FRAME_BYTES + 100))
    whole.with_suffix(".part").touch()
    note = whole.with_name("note.txt")
    note.touch()
    (files.folder / "lost+found").mkdir()

    frames, removed = files.scan(files.leaves())
    assert frames == [frame(0)]
    assert removed == 4
    assert sorted(path for path in files.folder.rglob("*") if path.is_file()) == [whole, note]


def test_a_folder_is_claimed_by_one_node(tmp_path: Path):
    first, second = BlockFiles(tmp_path / "ssd"), BlockFiles(tmp_path / "ssd")
    first.claim()
    with pytest.raises(BlockingIOError):
        second.claim()
    first.close()
    second.claim()
    second.close()
    second.close()


def test_a_folder_that_can_not_be_made_is_told(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory") as refused:
        BlockFiles(tmp_path / "file" / "ssd").claim()
    assert refused.value.errno == errno.ENOTDIR


def test_a_check_leaves_nothing_behind(files: BlockFiles):
    files.check()
    assert list(files.folder.iterdir()) == []
