"""What a cache node survives, with a real Redis and real files under it."""

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cachenode.dram_store import DramStore
from cachenode.slab_format import (
    ENTRY_BYTES,
    HEADER_BYTES,
    Slab,
    Table,
    decode_header,
    decode_table,
)
from cachenode.ssd_store import SsdStore
from hearthkv.core.block_io import ReadEnd, WriteStatus
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from tests.conftest import StartRedis
from tests.node_rig import BLOCKS_MAX, Rig, open_node, prompt
from tests.redis_process import RedisProcess
from tests.slab_rig import FullDisk, slab_files, slabs_in

STORED = WriteStatus.STORED


class Machine:
    """A Redis and a disk that outlive the nodes that run on them."""

    def __init__(self, redis: RedisProcess, folder: Path) -> None:
        self.redis = redis
        self.disk = FullDisk(folder)
        self.starts = 0

    @asynccontextmanager
    async def node(
        self, *, dram_blocks: int = BLOCKS_MAX, timeout_s: float = 5
    ) -> AsyncIterator[Rig]:
        self.starts += 1
        dram = DramStore(
            [self.redis.url], node_id=NodeId("node-a"), epoch=self.starts, deadline_s=timeout_s
        )
        ssd = SsdStore(slab_files(self.disk), deadline_s=timeout_s)
        stores = {Tier.DRAM: dram, Tier.SSD: ssd}
        try:
            async with open_node(stores, dram_blocks=dram_blocks, epoch=self.starts) as rig:
                yield rig
        finally:
            await dram.close()
            await ssd.close()

    def disk_blocks(self) -> int:
        """Blocks that a scan would find on the disk now."""
        return sum(len(table.frames) for _, table in self.slabs())

    def slabs(self) -> list[tuple[Slab, Table]]:
        stored = [path.read_bytes() for path in slabs_in(self.disk.folder)]
        slabs = [decode_header(each) for each in stored]
        return [
            (slab, decode_table(slab, each[HEADER_BYTES:]))
            for slab, each in zip(slabs, stored, strict=True)
        ]

    def redis_blocks(self) -> int:
        """Blocks in Redis: all names but that of the epoch."""
        reply = self.redis.command("DBSIZE")
        return int(reply[1:]) - 1


@pytest.fixture
def machine(redis_server: RedisProcess, tmp_path: Path) -> Machine:
    return Machine(redis_server, tmp_path)


@pytest.fixture
def own_machine(start_redis: StartRedis, tmp_path: Path) -> Machine:
    """A machine whose Redis may be killed."""
    return Machine(start_redis(), tmp_path)


async def test_a_killed_node_finds_every_acknowledged_block_I4(machine: Machine):  # noqa: N802
    async with machine.node(dram_blocks=20) as rig:
        for name in range(4):
            assert await rig.write_slowly(prompt(10, name)) == [STORED] * 10
        before = rig.node.usage()
        assert rig.blocks() == (17, 23)
    async with machine.node(dram_blocks=20) as rig:
        assert rig.node.usage() == before
        for name in range(4):
            assert await rig.read(prompt(10, name)) == (10, ReadEnd.COMPLETE)
        # No copy is left that nobody counts.
        assert (machine.redis_blocks(), machine.disk_blocks()) == rig.blocks()


async def test_a_loss_of_redis_costs_what_hangs_on_it_only_I4(machine: Machine):  # noqa: N802
    async with machine.node(dram_blocks=20) as rig:
        for name in range(4):
            await rig.write_slowly(prompt(10, name))
        in_dram, on_ssd = rig.blocks()
    machine.redis.command("FLUSHALL")
    async with machine.node(dram_blocks=20) as rig:
        held = sum(rig.match(prompt(10, name)) for name in range(4))
        assert 0 < held <= on_ssd
        for name in range(4):
            count = rig.match(prompt(10, name))
            assert (await rig.read(prompt(10, name)))[0] == count
        await rig.node.settle()
        assert machine.disk_blocks() == held == rig.usage(Tier.SSD).blocks
        assert in_dram > 0 == rig.usage(Tier.DRAM).used_bytes


async def test_a_flipped_bit_in_redis_is_a_miss_I1(machine: Machine):  # noqa: N802
    async with machine.node() as rig:
        await rig.write(prompt(1))
        (name,) = machine.redis.command("KEYS", "*block*").split(b"\r\n$")[1:]
        size, _, text = name.partition(b"\r\n")
        machine.redis.command("SETRANGE", text[: int(size)], "500", "?")
        assert await rig.read(prompt(1)) == (0, ReadEnd.LOST)
        assert await rig.read(prompt(1)) == (0, ReadEnd.MISS)
        await rig.node.settle()
        assert machine.redis_blocks() == 0 == rig.usage(Tier.DRAM).used_bytes


async def test_a_flipped_bit_on_the_ssd_is_a_miss_I1(own_machine: Machine):  # noqa: N802
    own_machine.redis.kill()
    async with own_machine.node() as rig:
        await rig.write(prompt(4))
        ((slab, table),) = own_machine.slabs()
        third = next(slot for slot, frame in table.frames if frame.key == prompt(4)[2])
        (path,) = slabs_in(own_machine.disk.folder)
        stored = bytearray(path.read_bytes())
        stored[slab.payload_offset(third) + 700] ^= 4
        path.write_bytes(stored)
        assert await rig.read(prompt(4)) == (2, ReadEnd.LOST)
        assert rig.meters.value("cachenode_lost_blocks_total", cause="bad_bytes") == 2
        await rig.node.settle()
        assert own_machine.disk_blocks() == 2


async def test_redis_dies_while_the_node_serves_and_comes_back(own_machine: Machine):
    async with own_machine.node() as rig:
        await rig.write(prompt(5))
        own_machine.redis.kill()
        assert await rig.read(prompt(5)) == (0, ReadEnd.UNAVAILABLE)
        assert "redis.sock" in rig.usage(Tier.DRAM).trouble
        assert await rig.write(prompt(5, name=1)) == [STORED] * 5
        assert await rig.read(prompt(5, name=1)) == (5, ReadEnd.COMPLETE)
        own_machine.redis.start()
        await rig.node.look_at_stores()
        assert rig.usage(Tier.DRAM).trouble == ""
        assert rig.match(prompt(5)) == 0  # it came back empty
        assert await rig.read(prompt(5, name=1)) == (5, ReadEnd.COMPLETE)
        assert await rig.write(prompt(5)) == [STORED] * 5
        assert rig.blocks() == (5, 5)


async def test_a_redis_that_hangs_counts_as_away(own_machine: Machine):
    async with own_machine.node(timeout_s=0.2) as rig:
        await rig.write(prompt(3))
        own_machine.redis.freeze()
        assert await rig.write(prompt(3, name=1)) == [STORED] * 3
        assert rig.blocks() == (3, 3)
        own_machine.redis.thaw()
        await rig.node.look_at_stores()
        assert await rig.read(prompt(3)) == (3, ReadEnd.COMPLETE)
        await rig.node.settle()
        assert own_machine.redis_blocks() == 3  # what was given up is erased


async def test_a_redis_that_is_flushed_between_two_looks_is_noticed(machine: Machine):
    async with machine.node() as rig:
        await rig.write(prompt(5))
        machine.redis.command("FLUSHALL")
        await rig.node.look_at_stores()
        assert rig.match(prompt(5)) == 0
        assert rig.usage(Tier.DRAM).used_bytes == 0


async def test_a_full_redis_is_read_on(start_redis: StartRedis, tmp_path: Path):
    machine = Machine(start_redis("--maxmemory-policy", "noeviction"), tmp_path)
    async with machine.node() as rig:
        await rig.write(prompt(5))
        machine.redis.command("CONFIG", "SET", "maxmemory", "1")
        assert await rig.write(prompt(5, name=1)) == [STORED] * 5
        assert "is full" in rig.usage(Tier.DRAM).trouble
        assert await rig.read(prompt(5)) == (5, ReadEnd.COMPLETE)
        assert rig.blocks() == (5, 5)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
async def test_a_failing_disk_leaves_the_node_with_dram(machine: Machine, number: int):
    async with machine.node(dram_blocks=10) as rig:
        machine.disk.error_number = number
        for name in range(4):
            await rig.write_slowly(prompt(4, name))
        assert os.strerror(number) in rig.usage(Tier.SSD).trouble
        assert await rig.read(prompt(4, name=3)) == (4, ReadEnd.COMPLETE)
        machine.disk.error_number = 0
        assert machine.disk_blocks() == 0
        assert [path for path in machine.disk.folder.iterdir() if path.suffix == ".part"] == []


async def test_a_disk_that_goes_away_is_noticed_and_taken_back(own_machine: Machine):
    own_machine.redis.kill()
    folder = own_machine.disk.folder
    async with own_machine.node() as rig:
        await rig.write(prompt(3))
        folder.rename(folder.with_name("away"))
        assert await rig.read(prompt(3)) == (0, ReadEnd.UNAVAILABLE)
        assert set(await rig.write(prompt(1, name=1))) == {WriteStatus.UNAVAILABLE}
        folder.with_name("away").rename(folder)
        await rig.node.look_at_stores()
        assert await rig.read(prompt(3)) == (3, ReadEnd.COMPLETE)


async def test_torn_and_foreign_files_are_no_blocks(own_machine: Machine):
    own_machine.redis.kill()
    async with own_machine.node() as rig:
        await rig.write(prompt(4))
    (path,) = slabs_in(own_machine.disk.folder)
    ((_, table),) = own_machine.slabs()
    fourth = next(slot for slot, frame in table.frames if frame.key == prompt(4)[3])
    stored = bytearray(path.read_bytes())
    stored[HEADER_BYTES + ENTRY_BYTES * fourth] ^= 4
    path.write_bytes(stored)
    foreign, note = path.with_name("00-1.slab"), path.with_name("README")
    foreign.write_bytes(b"half")
    note.write_text("not ours")
    async with own_machine.node() as rig:
        assert await rig.read(prompt(4)) == (3, ReadEnd.MISS)
    assert not foreign.exists()
    assert note.exists()
