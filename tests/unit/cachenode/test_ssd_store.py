"""Tests of `cachenode.ssd_store` beyond the contract: what is the disk's own."""

import errno
import os
from pathlib import Path
from threading import Event

import pytest

from cachenode.block_files import BlockFiles
from cachenode.ssd_store import SsdStore
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.checksum import block_checksum
from hearthkv.core.errors import BlockLostError, StoreFullError, StoreUnavailableError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier
from tests.store_calls import get_one, put_one

SPEC = NamespaceSpec(b"n" * 16, 16, 100)
PAYLOAD = bytes(100)
KEY = b"k" * 16
FRAME = BlockFrame(SPEC, KEY, b"", block_checksum(SPEC.namespace_id, KEY, PAYLOAD), 1)
REF = FRAME.ref(Tier.SSD)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


class FailingDisk(BlockFiles):
    """A disk whose every write fails with one error."""

    error_number = errno.ENOSPC

    def write_all(self, descriptor: int, frame: bytes, payload: memoryview) -> None:
        raise OSError(self.error_number, os.strerror(self.error_number))


class StuckDisk(BlockFiles):
    """A disk whose reads hang until it is released."""

    released = Event()

    def read(self, ref):
        self.released.wait()
        return super().read(ref)


class SlowDisk(BlockFiles):
    """A disk whose writes hang until it is released."""

    released = Event()

    def write_all(self, descriptor: int, frame: bytes, payload: memoryview) -> None:
        self.released.wait()
        super().write_all(descriptor, frame, payload)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, StoreFullError),
        (errno.EDQUOT, StoreFullError),
        (errno.EROFS, StoreUnavailableError),
        (errno.EIO, StoreUnavailableError),
    ],
)
async def test_an_error_of_the_disk_is_put_in_our_words(tmp_path: Path, number: int, expected):
    files = FailingDisk(tmp_path)
    files.error_number = number
    store = SsdStore(files, deadline_s=5)
    with pytest.raises(expected, match=os.strerror(number)):
        await put_one(store, FRAME, PAYLOAD)
    look = await store.check()
    assert (os.strerror(number) in look.trouble, look.is_same) == (True, False)
    assert files_in(tmp_path) == []
    await store.close()


async def test_a_missing_file_is_a_lost_block_and_a_missing_folder_a_lost_disk(tmp_path: Path):
    store = SsdStore(BlockFiles(tmp_path / "ssd"), deadline_s=5)
    with pytest.raises(StoreUnavailableError):
        await get_one(store, REF)
    (tmp_path / "ssd").mkdir()
    with pytest.raises(BlockLostError, match="no file"):
        await get_one(store, REF)
    await store.close()


async def test_a_folder_that_was_replaced_is_not_the_same(tmp_path: Path):
    folder = tmp_path / "ssd"
    folder.mkdir()
    store = SsdStore(BlockFiles(folder), deadline_s=5)
    assert [(await store.check()).is_same for _ in range(2)] == [False, True]
    folder.rename(tmp_path / "old")
    folder.mkdir()
    assert not (await store.check()).is_same
    await store.close()


async def test_a_disk_that_hangs_is_away_after_the_deadline(tmp_path: Path):
    files = StuckDisk(tmp_path)
    files.write(FRAME, PAYLOAD)
    store = SsdStore(files, deadline_s=0.05)
    with pytest.raises(StoreUnavailableError, match=r"did not answer within 0.05 s"):
        await get_one(store, REF)
    files.released.set()
    await store.close()


async def test_a_write_that_outlives_its_deadline_leaves_no_file(tmp_path: Path):
    files = SlowDisk(tmp_path)
    store = SsdStore(files, deadline_s=0.05)
    with pytest.raises(StoreUnavailableError, match=r"did not answer within 0.05 s"):
        await put_one(store, FRAME, PAYLOAD)
    await store.erase([REF])
    files.released.set()
    store._threads.shutdown(wait=True)
    assert files_in(tmp_path) == []
    await store.close()
