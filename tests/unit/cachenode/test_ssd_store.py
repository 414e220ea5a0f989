"""Tests of `cachenode.ssd_store` beyond the contract: what is the disk's own."""

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from cachenode.disk import Buffer, Disk
from cachenode.slab_files import SlabFiles
from cachenode.ssd_store import SsdStore
from cachenode.store import CopyRead, CopyWrite
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.checksum import block_checksum
from hearthkv.core.errors import BlockLostError, StoreFullError, StoreUnavailableError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier
from hearthkv.datapath.file_reader import FileReader
from tests.slab_rig import LIMIT_BYTES, FullDisk, slab_files, slabs_in
from tests.store_calls import get_one, put_one

SPEC = NamespaceSpec(b"n" * 16, 16, 4096)
PAYLOAD = bytes(4096)


def frame(number: int, *, sequence: int = 1) -> BlockFrame:
    key = bytes([number]) * 16
    checksum = block_checksum(SPEC.namespace_id, key, PAYLOAD)
    return BlockFrame(SPEC, key, b"", checksum, sequence)


FRAME = frame(0)
REF = FRAME.ref(Tier.SSD)


class StuckReader(FileReader):
    """A disk whose reads hang until it is released, and whose blocks are not in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, is_direct=False)
        self.reading = Event()
        self.released = Event()

    def preadv(self, descriptor, parts, offset, flags=0):
        if flags:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        self.reading.set()
        self.released.wait()
        return super().preadv(descriptor, parts, offset)


class SlowDisk(Disk):
    """A disk that hangs in one kind of write until it is released."""

    def __init__(self, folder: Path, *, hangs_at_bytes: int) -> None:
        super().__init__(folder)
        self.hangs_at_bytes = hangs_at_bytes
        self.writing = Event()
        self.released = Event()

    def pwritev(self, descriptor: int, buffers: Sequence[Buffer], offset: int) -> int:
        if sum(map(len, buffers)) == self.hangs_at_bytes:
            self.writing.set()
            self.released.wait()
        return super().pwritev(descriptor, buffers, offset)


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
    disk = FullDisk(tmp_path)
    disk.error_number = number
    store = SsdStore(slab_files(disk), deadline_s=5)
    with pytest.raises(expected, match=os.strerror(number)):
        await put_one(store, FRAME, PAYLOAD)
    look = await store.check()
    assert (os.strerror(number) in look.trouble, look.is_same) == (True, False)
    assert slabs_in(tmp_path) == []
    await store.close()


async def test_what_has_no_room_is_told_block_by_block(tmp_path: Path):
    files = slab_files(tmp_path, limit_bytes=8192 + 2 * 4096)
    store = SsdStore(files, deadline_s=5)
    writes = [CopyWrite(frame(number), PAYLOAD) for number in range(3)]
    first, second, third = await store.put(writes)
    assert (first, second) == (None, None)
    assert isinstance(third, StoreFullError)
    assert "no room within the tier's limit" in str(third)
    assert files.disk_bytes == files.limit_bytes
    await store.close()


async def test_a_missing_slab_is_a_lost_block_and_a_missing_folder_a_lost_disk(tmp_path: Path):
    folder = tmp_path / "ssd"
    folder.mkdir()
    store = SsdStore(slab_files(folder), deadline_s=5)
    await put_one(store, FRAME, PAYLOAD)
    (slab,) = slabs_in(folder)
    slab.unlink()
    with pytest.raises(BlockLostError, match="ends before"):
        await get_one(store, REF)
    folder.rename(tmp_path / "away")
    with pytest.raises(StoreUnavailableError):
        await get_one(store, REF)
    with pytest.raises(StoreUnavailableError):
        await put_one(store, frame(1), PAYLOAD)
    await store.close()


async def test_a_slab_that_was_cut_is_a_lost_block(tmp_path: Path):
    store = SsdStore(slab_files(tmp_path), deadline_s=5)
    await put_one(store, FRAME, PAYLOAD)
    (slab,) = slabs_in(tmp_path)
    os.truncate(slab, 8192 + 4095)
    with pytest.raises(BlockLostError, match="ends before"):
        await get_one(store, REF)
    await store.close()


async def test_a_block_that_can_not_be_read_leaves_the_others_alone(tmp_path: Path):
    class BadSector(FileReader):
        def preadv(self, descriptor, parts, offset, flags=0):
            if offset == 8192:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().preadv(descriptor, parts, offset, flags)

    files = SlabFiles(Disk(tmp_path), BadSector(tmp_path, is_direct=False), limit_bytes=LIMIT_BYTES)
    store = SsdStore(files, deadline_s=5)
    await store.put([CopyWrite(frame(number), PAYLOAD) for number in range(3)])
    await store.erase([frame(1).ref(Tier.SSD)])  # two runs are left
    reads = [
        CopyRead(frame(number).ref(Tier.SSD), memoryview(bytearray(4096))) for number in range(3)
    ]
    bad, lost, good = await store.get(reads)
    assert isinstance(bad, StoreUnavailableError)
    assert isinstance(lost, BlockLostError)
    assert good is None
    await store.close()


async def test_a_folder_that_was_replaced_is_not_the_same(tmp_path: Path):
    folder = tmp_path / "ssd"
    folder.mkdir()
    store = SsdStore(slab_files(folder), deadline_s=5)
    assert [(await store.check()).is_same for _ in range(2)] == [False, True]
    folder.rename(tmp_path / "old")
    folder.mkdir()
    assert not (await store.check()).is_same
    await store.close()


async def test_a_folder_from_which_a_slab_is_gone_is_not_the_same(tmp_path: Path):
    store = SsdStore(slab_files(tmp_path), deadline_s=5)
    await put_one(store, FRAME, PAYLOAD)
    assert [(await store.check()).is_same for _ in range(2)] == [False, True]
    slabs_in(tmp_path)[0].unlink()
    assert not (await store.check()).is_same
    assert [part async for part in store.scan()] == []
    assert [(await store.check()).is_same for _ in range(2)] == [False, True]
    await store.close()


async def test_a_disk_that_hangs_is_away_after_the_deadline_and_leaves_memory_alone(
    tmp_path: Path,
):
    reader = StuckReader(tmp_path)
    files = SlabFiles(Disk(tmp_path), reader, limit_bytes=LIMIT_BYTES)
    files.write([CopyWrite(FRAME, PAYLOAD)], Event())
    store = SsdStore(files, deadline_s=0.05)
    into = bytearray(b"x" * 4096)
    (outcome,) = await store.get([CopyRead(REF, memoryview(into))])
    assert isinstance(outcome, StoreUnavailableError)
    assert "did not answer within 0.05 s" in str(outcome)
    reader.released.set()
    store._threads.shutdown(wait=True)
    assert into == b"x" * 4096
    await store.close()


async def test_a_reader_who_leaves_gets_its_memory_back_at_once(tmp_path: Path):
    reader = StuckReader(tmp_path)
    files = SlabFiles(Disk(tmp_path), reader, limit_bytes=LIMIT_BYTES)
    files.write([CopyWrite(FRAME, PAYLOAD)], Event())
    store = SsdStore(files, deadline_s=5)
    into = bytearray(b"x" * 4096)
    reading = asyncio.create_task(store.get([CopyRead(REF, memoryview(into))]))
    await asyncio.to_thread(reader.reading.wait)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    reader.released.set()
    store._threads.shutdown(wait=True)
    assert into == b"x" * 4096
    await store.close()


@pytest.mark.parametrize("hangs_at_bytes", [4096, 256], ids=["in-its-payload", "in-its-entry"])
async def test_a_write_that_outlives_its_deadline_leaves_nothing(
    tmp_path: Path, hangs_at_bytes: int
):
    disk = SlowDisk(tmp_path, hangs_at_bytes=hangs_at_bytes)
    files = slab_files(disk)
    store = SsdStore(files, deadline_s=0.05)
    (outcome,) = await store.put([CopyWrite(FRAME, PAYLOAD)])
    assert isinstance(outcome, StoreUnavailableError)
    await asyncio.to_thread(disk.writing.wait)
    await store.erase([REF])
    disk.released.set()
    store._threads.shutdown(wait=True)
    assert slabs_in(tmp_path) == []
    assert files.disk_bytes == 0
    await store.close()


async def test_no_scan_begins_while_a_write_is_under_way(tmp_path: Path):
    disk = SlowDisk(tmp_path, hangs_at_bytes=256)
    store = SsdStore(slab_files(disk), deadline_s=5)
    writing = asyncio.create_task(store.put([CopyWrite(FRAME, PAYLOAD)]))
    await asyncio.to_thread(disk.writing.wait)
    with pytest.raises(StoreUnavailableError, match="1 calls to the disk have not ended"):
        _ = [part async for part in store.scan()]
    disk.released.set()
    assert await writing == [None]
    assert [part.frames async for part in store.scan()] == [(FRAME,)]
    await store.close()


async def test_nothing_is_written_while_a_scan_is_under_way(tmp_path: Path):
    store = SsdStore(slab_files(tmp_path), deadline_s=5)
    await put_one(store, FRAME, PAYLOAD)
    scan = store.scan()
    await anext(scan)
    with pytest.raises(StoreUnavailableError, match="is being scanned"):
        await put_one(store, frame(1), PAYLOAD)
    assert [part async for part in scan] == []
    await put_one(store, frame(1), PAYLOAD)
    await store.close()


async def test_a_prompt_that_was_written_together_is_read_in_one_call(tmp_path: Path):
    calls = []

    class Counting(FileReader):
        def preadv(self, descriptor, parts, offset, flags=0):
            calls.append(len(parts))
            return super().preadv(descriptor, parts, offset, flags)

    files = SlabFiles(Disk(tmp_path), Counting(tmp_path, is_direct=False), limit_bytes=LIMIT_BYTES)
    store = SsdStore(files, deadline_s=5)
    await store.put([CopyWrite(frame(number), PAYLOAD) for number in range(10)])
    into = memoryview(bytearray(10 * 4096))
    reads = [
        CopyRead(frame(number).ref(Tier.SSD), into[number * 4096 : (number + 1) * 4096])
        for number in range(10)
    ]
    assert await store.get(reads) == [None] * 10
    assert calls == [10]
    await store.close()
