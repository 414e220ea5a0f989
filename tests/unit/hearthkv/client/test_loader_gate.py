"""What the gate of hearthkv/client/loader.py lets through."""

import logging
from dataclasses import replace

from hearthkv.client.events import METRICS, LoadDecided
from hearthkv.client.kv import HearthKV, connect
from hearthkv.client.load_rates import ReadPath, ReadSample, Source
from hearthkv.client.outcome import Loaded, MissReason
from hearthkv.core.block_io import ReadEnd
from hearthkv.core.direct_path import Located
from hearthkv.core.tier import Tier, TierCounts
from hearthkv.metrics import PrometheusMeters
from hearthkv.telemetry import Event, NoMeters, Telemetry
from hearthkv.v1 import block_pb2
from tests.fakes.direct_node import FakeDirectNode
from tests.fakes.misbehaviour import Stall
from tests.fakes.servers import serving
from tests.unit.hearthkv.client.bent_reads import ending
from tests.unit.hearthkv.client.client_kit import (
    BLOCK_BYTES,
    BLOCKS,
    PATIENT,
    SPEC,
    client,
    holding,
)
from tests.unit.hearthkv.client.test_loader import begin, hold, new_buffer


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
