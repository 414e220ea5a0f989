"""Tests of hearthkv/client/loader.py: what comes directly, what by stream, and what not at all."""

import asyncio
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from hearthkv.client.attachments import RETRY_S
from hearthkv.client.kv import HearthKV, connect
from hearthkv.client.outcome import Loaded, MissReason
from hearthkv.client.turn import Turn
from hearthkv.core.block_io import ReadEnd
from hearthkv.core.clock import ManualClock
from hearthkv.core.direct_path import Located
from hearthkv.core.tier import TierCounts
from tests.conftest import StartRedis
from tests.fakes.direct_node import STALE, FakeDirectNode
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.servers import serving
from tests.redis_process import RedisProcess
from tests.unit.hearthkv.client.client_kit import (
    BLOCK_BYTES,
    BLOCKS,
    KEYS,
    PATIENT,
    PAYLOADS,
    SPEC,
    TOKENS,
    client,
    holding,
    until,
)


async def begin(kv: HearthKV, address: str) -> Turn:
    return await kv.begin_turn("s", SPEC, TOKENS, node=address)


def new_buffer() -> bytearray:
    return bytearray(BLOCKS * BLOCK_BYTES)


def hold(direct: FakeDirectNode, tiers: str) -> None:
    """Hold leading blocks, `d` in Redis and `s` in a file."""
    for index, tier in enumerate(tiers):
        if tier == "d":
            direct.hold_in_redis(SPEC, KEYS[index], PAYLOADS[index])
        else:
            direct.hold_in_file(SPEC, [KEYS[index]], [PAYLOADS[index]])


@pytest.mark.parametrize("tiers", ["ddddd", "sssss", "dsdsd", "ssddd", "dddss"])
async def test_all_tiers_are_read_into_one_buffer(direct_node: FakeDirectNode, tiers: str):
    hold(direct_node, tiers)
    node = holding()
    async with serving(node, direct=direct_node) as address, client() as kv:
        buffer = new_buffer()
        loaded = await (await begin(kv, address)).load_into(buffer)
        counts = TierCounts(dram=tiers.count("d"), ssd=tiers.count("s"))
        assert loaded == Loaded(5, 20, counts, None, direct_blocks=5)
        assert buffer == b"".join(PAYLOADS)
        assert (kv.stats.loaded_blocks, kv.stats.direct_blocks) == (5, 5)
    assert node.calls["Read"] == 0


async def test_a_load_may_begin_behind_what_the_caller_has(direct_node: FakeDirectNode):
    hold(direct_node, "dsdsd")
    async with serving(holding(), direct=direct_node) as address, client() as kv:
        buffer = bytearray(3 * BLOCK_BYTES)
        loaded = await (await begin(kv, address)).load_into(buffer, 2)
    assert (loaded.blocks, loaded.direct_blocks, loaded.miss) == (3, 3, None)
    assert buffer == b"".join(PAYLOADS[2:])


async def test_where_the_node_says_that_it_holds_no_more_nothing_is_asked_again(
    direct_node: FakeDirectNode,
):
    hold(direct_node, "ds")
    node = holding(2)
    async with serving(node, direct=direct_node) as address, client() as kv:
        loaded = await (await begin(kv, address)).load_into(new_buffer())
    assert loaded == Loaded(2, 8, TierCounts(dram=1, ssd=1), MissReason.NOT_HELD, 2)
    assert node.calls["Read"] == 0


@pytest.mark.parametrize("end", [ReadEnd.UNAVAILABLE, ReadEnd.LOST, ReadEnd.COMPLETE])
async def test_what_can_not_be_had_directly_comes_by_stream(
    direct_node: FakeDirectNode, end: ReadEnd
):
    hold(direct_node, "dsdsd")
    direct_node.bend_located = lambda honest: Located(honest.blocks[:2], end)
    node = holding()
    async with serving(node, direct=direct_node) as address, client() as kv:
        buffer = new_buffer()
        loaded = await (await begin(kv, address)).load_into(buffer)
    assert loaded == Loaded(5, 20, TierCounts(dram=4, ssd=1), None, direct_blocks=2)
    assert buffer == b"".join(PAYLOADS)
    assert node.last_read is not None
    assert (node.last_read.first_block, node.last_read.keys.keys) == (2, KEYS.packed[2 * 16 :])


async def test_a_block_that_was_moved_costs_nothing_but_the_way(direct_node: FakeDirectNode):
    hold(direct_node, "dsdsd")
    name = direct_node.names.block_of(direct_node.blocks[KEYS[2]].ref)
    assert direct_node.servers[0].command("DEL", name) == b":1\r\n"
    async with serving(holding(), direct=direct_node) as address, client() as kv:
        for _ in range(2):
            buffer = new_buffer()
            loaded = await (await begin(kv, address)).load_into(buffer)
            assert (loaded.blocks, loaded.direct_blocks, loaded.miss) == (5, 2, None)
            assert buffer == b"".join(PAYLOADS)
    assert direct_node.calls["Attach"] == 2  # the proof's place and the stores, once for all


async def test_blocks_are_told_as_they_come_over_both_paths(direct_node: FakeDirectNode):
    hold(direct_node, "dsd")
    direct_node.bend_located = lambda honest: Located(honest.blocks, ReadEnd.UNAVAILABLE)
    told: list[int] = []
    async with serving(holding(), direct=direct_node) as address, client() as kv:
        await (await begin(kv, address)).load_into(new_buffer(), on_progress=told.append)
    assert told == sorted(set(told))
    assert told[-1] == BLOCKS
    assert 3 in told


async def test_what_is_told_is_in_the_buffer(direct_node: FakeDirectNode):
    hold(direct_node, "dsdsd")
    buffer, seen = new_buffer(), []

    def look(blocks: int) -> None:
        seen.append(bytes(buffer[: blocks * BLOCK_BYTES]) == b"".join(PAYLOADS[:blocks]))

    async with serving(holding(), direct=direct_node) as address, client() as kv:
        await (await begin(kv, address)).load_into(buffer, on_progress=look)
    assert seen
    assert all(seen)


async def test_the_direct_path_can_be_switched_off(direct_node: FakeDirectNode):
    hold(direct_node, "ddddd")
    settings = replace(PATIENT, direct_path=False)
    async with serving(holding(), direct=direct_node) as address, client(settings=settings) as kv:
        loaded = await (await begin(kv, address)).load_into(new_buffer())
    assert (loaded.blocks, loaded.direct_blocks) == (5, 0)
    assert direct_node.calls.total() == 0


async def test_a_node_that_was_started_again_is_attached_to_again(direct_node: FakeDirectNode):
    hold(direct_node, "dsdsd")
    async with serving(holding(), direct=direct_node) as address, client() as kv:
        await (await begin(kv, address)).load_into(new_buffer())
        direct_node.start(epoch=8)
        loaded = await (await begin(kv, address)).load_into(new_buffer())
    assert (loaded.blocks, loaded.direct_blocks) == (5, 5)
    assert (direct_node.calls["Attach"], direct_node.calls["Locate"]) == (4, 3)


async def test_a_proof_that_is_stale_again_and_again_is_no_loop(direct_node: FakeDirectNode):
    hold(direct_node, "ddddd")
    direct_node.troubles["Locate"] = STALE
    async with serving(holding(), direct=direct_node) as address, client() as kv:
        loaded = await (await begin(kv, address)).load_into(new_buffer())
    assert (loaded.blocks, loaded.direct_blocks) == (5, 0)
    assert direct_node.calls["Locate"] == 2


async def test_a_node_that_started_again_meanwhile_gives_right_bytes(direct_node: FakeDirectNode):
    hold(direct_node, "dsdsd")
    real = direct_node.bend_located

    def started_again(honest: Located) -> Located:
        direct_node.start(epoch=9)
        return real(honest)

    direct_node.bend_located = started_again
    async with serving(holding(), direct=direct_node) as address, client() as kv:
        buffer = new_buffer()
        loaded = await (await begin(kv, address)).load_into(buffer)
    assert (loaded.blocks, loaded.direct_blocks) == (5, 5)  # what was held then is held now
    assert buffer == b"".join(PAYLOADS)


async def test_a_node_that_does_not_answer_is_a_miss(direct_node: FakeDirectNode):
    hold(direct_node, "ddddd")
    direct_node.troubles["Locate"] = Stall()
    settings = replace(PATIENT, stall_s=1)
    async with serving(holding(), direct=direct_node) as address, client(settings=settings) as kv:
        loaded = await (await begin(kv, address)).load_into(new_buffer())
    assert loaded == Loaded(miss=MissReason.TIMEOUT)


async def test_a_node_that_refuses_is_not_direct_for_a_while(direct_node: FakeDirectNode):
    hold(direct_node, "ddddd")
    direct_node.troubles["Locate"] = Fail(grpc.StatusCode.INTERNAL, is_answer=True)
    clock = ManualClock()
    async with serving(holding(), direct=direct_node) as address, client(clock=clock) as kv:
        for _ in range(2):
            loaded = await (await begin(kv, address)).load_into(new_buffer())
            assert (loaded.blocks, loaded.direct_blocks) == (5, 0)
        assert direct_node.calls["Locate"] == 1
        del direct_node.troubles["Locate"]
        clock.advance(RETRY_S)
        loaded = await (await begin(kv, address)).load_into(new_buffer())
        assert (loaded.blocks, loaded.direct_blocks) == (5, 5)


# Trouble in the midst of a read


async def test_a_store_that_hangs_is_left_for_the_stream(tmp_path: Path, start_redis: StartRedis):
    server = start_redis()
    direct_node = FakeDirectNode(tmp_path, server)
    hold(direct_node, "dsdsd")
    direct_node.before["Locate"] = server.freeze
    settings = replace(PATIENT, stall_s=1)
    async with serving(holding(), direct=direct_node) as address, client(settings=settings) as kv:
        buffer = new_buffer()
        loaded = await (await begin(kv, address)).load_into(buffer)
        assert (loaded.blocks, loaded.direct_blocks, loaded.miss) == (5, 0, None)
        assert buffer == b"".join(PAYLOADS)
        again = await (await begin(kv, address)).load_into(buffer)
        assert again.blocks == 5
    assert direct_node.calls["Locate"] == 1  # its stores are left alone now


async def test_a_store_that_dies_is_left_for_the_stream(tmp_path: Path, start_redis: StartRedis):
    server = start_redis()
    direct_node = FakeDirectNode(tmp_path, server)
    hold(direct_node, "sdsds")
    direct_node.before["Locate"] = server.kill
    async with serving(holding(), direct=direct_node) as address, client() as kv:
        buffer = new_buffer()
        loaded = await (await begin(kv, address)).load_into(buffer)
    assert (loaded.blocks, loaded.miss) == (5, None)
    assert loaded.direct_blocks <= 1
    assert buffer == b"".join(PAYLOADS)


async def test_a_load_ends_at_its_deadline_and_its_buffer_is_left_alone(
    tmp_path: Path, start_redis: StartRedis
):
    server = start_redis()
    direct_node = FakeDirectNode(tmp_path, server)
    hold(direct_node, "ddddd")
    direct_node.before["Locate"] = server.freeze
    settings = replace(PATIENT, stall_s=20)
    async with (
        serving(holding(), direct=direct_node) as address,
        connect(settings=settings) as kv,  # by the machine's clock
    ):
        buffer = new_buffer()
        loaded = await (await begin(kv, address)).load_into(buffer, deadline_s=0.5)
        assert loaded == Loaded(miss=MissReason.TIMEOUT)
        await nothing_comes_late(server, buffer)


async def test_a_load_that_is_cancelled_leaves_its_buffer_alone(
    tmp_path: Path, start_redis: StartRedis
):
    server = start_redis()
    direct_node = FakeDirectNode(tmp_path, server)
    hold(direct_node, "ddddd")
    located = asyncio.Event()

    def freeze() -> None:
        server.freeze()
        located.set()

    direct_node.before["Locate"] = freeze
    async with serving(holding(), direct=direct_node) as address, client() as kv:
        buffer = new_buffer()
        load = asyncio.create_task((await begin(kv, address)).load_into(buffer))
        await located.wait()
        pool = kv._attachments._entries[address].stores.pools[0]
        await until(lambda: pool._window.requests == BLOCKS)
        load.cancel()
        with pytest.raises(asyncio.CancelledError):
            await load
        await nothing_comes_late(server, buffer)


async def nothing_comes_late(server: RedisProcess, buffer: bytearray) -> None:
    """Let a frozen server answer all that it was ever asked, and see that nobody takes it."""
    server.thaw()
    await asyncio.to_thread(server.command, "PING")  # behind what was asked before
    for _ in range(100):
        await asyncio.sleep(0)
    assert buffer == bytes(len(buffer))
