"""Tests of hearthkv/client/loader.py: what comes directly, what by stream, and what not at all."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from hearthkv.client.attachments import RETRY_S
from hearthkv.client.events import METRICS, LoadDecided
from hearthkv.client.kv import HearthKV, connect
from hearthkv.client.load_rates import ReadPath, ReadSample, Source
from hearthkv.client.outcome import Loaded, MissReason
from hearthkv.client.turn import Turn
from hearthkv.core.block_io import ReadEnd
from hearthkv.core.clock import ManualClock
from hearthkv.core.direct_path import Located
from hearthkv.core.tier import Tier, TierCounts
from hearthkv.metrics import PrometheusMeters
from hearthkv.telemetry import Event, NoMeters, Telemetry
from hearthkv.v1 import block_pb2
from tests.conftest import StartRedis
from tests.fakes.direct_node import STALE, FakeDirectNode
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.servers import serving
from tests.redis_process import RedisProcess
from tests.unit.hearthkv.client.bent_reads import ending
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


# The gate


def know(kv: HearthKV, address: str, *, blocks_s: float, reads_s: dict[Tier, float]) -> None:
    """Blocks computed a second, and by tier read a second."""
    rates = kv._loader._rates
    rates.note_prefill(SPEC.namespace_id, 4000, 1000 / blocks_s)
    for path in ReadPath:
        for tier, rate in reads_s.items():
            sample = ReadSample({tier: 1000 * BLOCK_BYTES}, 0.0, 1000 / rate)
            rates.note_read(Source(address, path), sample, 0.0)


class Limits(Telemetry):
    """Telemetry that keeps how long loads may take."""

    def __init__(self, limits: list[float]) -> None:
        super().__init__(logging.getLogger("test.client"), NoMeters())
        self.limits = limits

    def emit(self, event: Event) -> None:
        if isinstance(event, LoadDecided):
            self.limits.append(event.decision.limit_s)


async def test_what_is_computed_faster_is_not_loaded(direct_node: FakeDirectNode):
    hold(direct_node, "ddsss")
    node = holding()
    async with serving(node, direct=direct_node) as address, client() as kv:
        turn = await begin(kv, address)
        know(kv, address, blocks_s=10, reads_s={Tier.DRAM: 1, Tier.SSD: 1})
        assert await turn.load_into(new_buffer()) == Loaded(miss=MissReason.RECOMPUTE)
    assert node.calls["Read"] == 0


async def test_only_the_prefix_that_pays_is_loaded(direct_node: FakeDirectNode):
    hold(direct_node, "ddsss")
    node = holding()
    async with serving(node, direct=direct_node) as address, client() as kv:
        turn = await begin(kv, address)
        know(kv, address, blocks_s=10, reads_s={Tier.DRAM: 1000, Tier.SSD: 1})
        loaded = await turn.load_into(new_buffer())
    assert loaded == Loaded(2, 8, TierCounts(dram=2), MissReason.RECOMPUTE, direct_blocks=2)
    assert node.calls["Read"] == 0


async def test_the_gate_can_be_switched_off(direct_node: FakeDirectNode):
    hold(direct_node, "ddddd")
    settings = replace(PATIENT, load_gate=False)
    async with serving(holding(), direct=direct_node) as address, client(settings=settings) as kv:
        turn = await begin(kv, address)
        know(kv, address, blocks_s=10, reads_s={Tier.DRAM: 1})
        assert (await turn.load_into(new_buffer())).blocks == 5


async def test_without_a_direct_path_the_gate_goes_by_what_the_node_matched():
    node = holding()
    node.matched = [
        block_pb2.TierBlocks(tier=block_pb2.TIER_DRAM, blocks=3),
        block_pb2.TierBlocks(tier=block_pb2.TIER_SSD, blocks=2),
    ]
    async with serving(node) as address, client() as kv:
        turn = await begin(kv, address)
        know(kv, address, blocks_s=10, reads_s={Tier.DRAM: 1000, Tier.SSD: 1})
        loaded = await turn.load_into(new_buffer())
    assert loaded == Loaded(3, 12, TierCounts(dram=3), MissReason.RECOMPUTE)


async def test_what_comes_by_stream_behind_the_located_blocks_has_its_time_too(
    direct_node: FakeDirectNode,
):
    hold(direct_node, "ddddd")
    direct_node.bend_located = lambda honest: Located(honest.blocks[:1], ReadEnd.UNAVAILABLE)
    async with serving(holding(), direct=direct_node) as address, client() as kv:
        turn = await begin(kv, address)
        # A second for each block: one that is located, and four that the node is said to hold.
        know(kv, address, blocks_s=1, reads_s={Tier.DRAM: 1000})
        limits: list[float] = []
        kv._loader._telemetry = Limits(limits)
        loaded = await turn.load_into(new_buffer())
    assert (loaded.blocks, loaded.direct_blocks, limits) == (5, 1, [5.0])


async def test_blocks_that_nobody_said_to_be_there_are_no_matter_of_the_gate():
    node = holding()
    node.matched = []
    async with serving(node) as address, client() as kv:
        turn = await begin(kv, address)
        know(kv, address, blocks_s=1000, reads_s={Tier.DRAM: 1})
        assert (await turn.load_into(new_buffer(), blocks=BLOCKS)).blocks == BLOCKS


async def test_a_load_that_takes_longer_than_to_compute_is_given_up_and_nobody_is_blamed():
    node = holding()
    node.read_bends = ending(4, Stall())
    async with serving(node) as address, client() as kv:
        turn = await begin(kv, address)
        know(kv, address, blocks_s=1000, reads_s={Tier.DRAM: 1e6})
        loaded = await turn.load_into(new_buffer())
        assert loaded.miss is MissReason.RECOMPUTE
        assert kv._calls.skipped() == frozenset()


async def test_loads_and_prefills_are_learned_from(direct_node: FakeDirectNode):
    hold(direct_node, "ddddd")
    meters = PrometheusMeters(METRICS)
    telemetry = Telemetry(logging.getLogger("test.client"), meters)
    async with (
        serving(holding(), direct=direct_node) as address,
        connect(settings=PATIENT, telemetry=telemetry) as kv,
    ):
        turn = await begin(kv, address)
        turn.note_prefill(10, 0.1)  # too short to tell
        assert meters.value("client_prefill_tokens_per_second") == 0
        know(kv, address, blocks_s=10, reads_s={Tier.DRAM: 40})
        turn.note_prefill(1000, 25.0)
        await turn.load_into(new_buffer())
    value = meters.value
    assert value("client_loaded_blocks_total", path="direct") == 5
    assert value("client_loaded_bytes_total", path="direct") == 5 * BLOCK_BYTES
    assert value("client_load_decisions_total", verdict="none") == 0
    assert value("client_prefill_tokens_per_second") == 40
