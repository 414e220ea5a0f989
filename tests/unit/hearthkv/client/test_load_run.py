"""Tests of hearthkv/client/load_run.py."""

from hearthkv.client.load_rates import ReadPath, ReadSample
from hearthkv.client.load_run import LoadQuery, LoadRun, OnProgress
from hearthkv.client.outcome import Loaded, MissReason
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier, TierCounts

SPEC = NamespaceSpec(b"n" * 16, block_size=4, block_bytes=10)
NOTHING = {Tier.HBM: 0, Tier.DRAM: 0, Tier.SSD: 0}


def new_run(on_progress: OnProgress | None = None) -> LoadRun:
    keys = PackedKeys(bytes(5 * 16))
    view = memoryview(bytearray(50))
    return LoadRun(
        LoadQuery(SPEC, SessionId("s"), keys, 0, TierCounts(dram=5), view, 1.0, on_progress)
    )


def count(run: LoadRun, path: ReadPath, counts: TierCounts, transfer_s: float = 1.0) -> ReadSample:
    return run.count(path, counts, Tier.SSD, latency_s=0.5, transfer_s=transfer_s)


def test_the_blocks_of_both_paths_are_one_outcome():
    run = new_run()
    count(run, ReadPath.DIRECT, TierCounts(dram=2, ssd=1))
    assert (run.blocks, run.is_over) == (3, False)
    count(run, ReadPath.STREAM, TierCounts(dram=2))
    assert run.is_over
    assert run.loaded == Loaded(5, 20, TierCounts(dram=4, ssd=1), None, direct_blocks=3)


def test_a_miss_ends_it():
    run = new_run()
    run.miss = MissReason.LOST
    assert run.is_over
    assert run.loaded == Loaded(miss=MissReason.LOST)


def test_what_is_left_out_is_to_be_computed():
    run = new_run()
    run.cut(2)
    count(run, ReadPath.DIRECT, TierCounts(dram=2))
    assert run.is_over
    assert run.loaded == Loaded(2, 8, TierCounts(dram=2), MissReason.RECOMPUTE, direct_blocks=2)


def test_progress_goes_one_way():
    told: list[int] = []
    run = new_run(told.append)
    for blocks in (0, 2, 2, 1, 5):
        run.tell(blocks)
    assert told == [2, 5]


def test_nobody_needs_to_be_told():
    new_run().tell(1)


def test_what_came_is_a_sample():
    sample = count(new_run(), ReadPath.DIRECT, TierCounts(dram=2, ssd=1))
    assert sample == ReadSample(NOTHING | {Tier.DRAM: 20, Tier.SSD: 10}, 0.5, 1.0)


def test_nothing_in_a_long_time_counts_as_one_block():
    sample = count(new_run(), ReadPath.STREAM, TierCounts())
    assert sample == ReadSample(NOTHING | {Tier.SSD: 10}, 0.5, 1.0)


def test_nothing_in_a_short_time_tells_nothing():
    sample = count(new_run(), ReadPath.STREAM, TierCounts(), transfer_s=0.001)
    assert not sample.is_telling
