"""Tests of hearthkv/client/load_gate.py."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hearthkv.client.load_gate import (
    LIMIT_S_MIN,
    PROBE_AFTER_S,
    PROBE_BYTES,
    PROBE_LIMIT_S,
    Decision,
    TierRun,
    Verdict,
    decide,
    runs_of_counts,
    runs_of_tiers,
    wait_limit_s,
)
from hearthkv.client.load_rates import LoadRates, ReadPath, ReadSample, Source
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier, TierCounts

MIB = 1024 * 1024
SPEC = NamespaceSpec(b"n" * 16, block_size=16, block_bytes=MIB)
NODE = Source("127.0.0.1:1", ReadPath.STREAM)
DRAM, SSD = Tier.DRAM, Tier.SSD


def known(*, blocks_s: float | None = None, latency_s: float = 0.0, **mib_s: float) -> LoadRates:
    """What is known: blocks computed a second, and MiB (so blocks, too) read a second."""
    rates = LoadRates()
    if blocks_s is not None:
        rates.note_prefill(SPEC.namespace_id, 16_000, 1000 / blocks_s)
    for tier, rate in mib_s.items():
        sample = ReadSample({Tier[tier.upper()]: MIB}, latency_s, 1 / rate)
        rates.note_read(NODE, sample, 0.0)
    return rates


def asked(rates: LoadRates, *runs: tuple[Tier, int], now_s: float = 0.0) -> Decision:
    return decide(rates, NODE, SPEC, [TierRun(tier, blocks) for tier, blocks in runs], now_s)


def test_what_is_not_known_is_loaded():
    assert asked(known(), (DRAM, 8)) == Decision(8, math.inf, Verdict.UNKNOWN)
    assert asked(known(dram=0.001), (DRAM, 8)) == Decision(8, math.inf, Verdict.UNKNOWN)


def test_a_first_load_is_given_up_when_it_took_as_long_as_to_compute():
    assert asked(known(blocks_s=4), (DRAM, 8)) == Decision(8, 2.0, Verdict.UNKNOWN, prefill_s=2.0)


def test_what_is_read_faster_than_computed_is_loaded():
    assert asked(known(blocks_s=4, dram=8), (DRAM, 8)) == Decision(8, 2.0, Verdict.ALL, 1.0, 2.0)


def test_what_is_computed_faster_than_read_is_not_loaded():
    decision = asked(known(blocks_s=8, dram=4), (DRAM, 8))
    assert decision == Decision(0, LIMIT_S_MIN, Verdict.NONE)


def test_where_both_are_as_fast_it_is_loaded():
    assert asked(known(blocks_s=8, dram=8), (DRAM, 8)).verdict is Verdict.ALL


def test_only_the_prefix_that_pays_is_loaded():
    decision = asked(known(blocks_s=8, dram=16, ssd=4), (DRAM, 8), (SSD, 8))
    assert decision == Decision(8, 1.0, Verdict.PART, 0.5, 1.0)


def test_a_slow_run_pays_where_a_fast_one_behind_it_makes_up_for_it():
    rates = known(blocks_s=8, dram=80, ssd=4)
    assert asked(rates, (SSD, 8), (DRAM, 80)).blocks == 88
    assert asked(rates, (SSD, 8), (DRAM, 8)).blocks == 0
    assert asked(rates, (DRAM, 8), (SSD, 8), (DRAM, 80), (SSD, 8)).blocks == 96


def test_a_tier_that_was_never_read_is_read():
    assert asked(known(blocks_s=8, dram=4), (SSD, 8)).verdict is Verdict.ALL


def test_what_is_too_short_for_the_way_to_the_node_is_computed():
    rates = known(blocks_s=8, dram=80, latency_s=1.0)
    assert asked(rates, (DRAM, 8)).verdict is Verdict.NONE
    assert asked(rates, (DRAM, 80)).verdict is Verdict.ALL


def test_nothing_to_load_is_nothing_to_decide():
    assert asked(known(blocks_s=8, dram=80)) == Decision(0, LIMIT_S_MIN, Verdict.ALL)


def test_a_slow_cache_of_a_public_report_is_refused():
    # Time to the first token with a cache of 20.24 s, without it of 7.67 s.
    blocks = 1000
    rates = known()
    first = asked(rates, (DRAM, blocks))
    assert first.blocks == blocks  # nobody knows yet
    rates.note_prefill(SPEC.namespace_id, blocks * SPEC.block_size, 7.67)
    slow = ReadSample({DRAM: blocks * MIB}, 0.0, 20.24)
    # Even with nothing known of the cache, no more is lost than computing takes.
    assert asked(rates, (DRAM, blocks)).limit_s == pytest.approx(7.67)
    rates.note_read(NODE, slow, 0.0)
    assert asked(rates, (DRAM, blocks)).verdict is Verdict.NONE


def test_a_refused_tier_is_tried_again_and_a_better_answer_is_believed():
    rates = known(blocks_s=8, dram=4)
    assert asked(rates, (DRAM, 100), now_s=PROBE_AFTER_S - 1).verdict is Verdict.NONE
    probe = asked(rates, (DRAM, 100), now_s=PROBE_AFTER_S)
    assert (probe.verdict, probe.blocks) == (Verdict.PROBE, PROBE_BYTES // MIB)
    assert probe.limit_s == pytest.approx(1.0)  # as long as to compute these blocks
    assert asked(rates, (DRAM, 100), now_s=PROBE_AFTER_S).verdict is Verdict.NONE
    rates.note_read(NODE, ReadSample({DRAM: 8 * MIB}, 0.0, 0.1), PROBE_AFTER_S)
    assert asked(rates, (DRAM, 100), now_s=PROBE_AFTER_S).verdict is Verdict.ALL


def test_what_pays_is_loaded_with_the_probe():
    rates = known(blocks_s=8, dram=16, ssd=4)
    probe = asked(rates, (DRAM, 8), (SSD, 3), (DRAM, 1), now_s=PROBE_AFTER_S)
    assert (probe.verdict, probe.blocks) == (Verdict.PROBE, 11)


def test_a_probe_of_large_blocks_is_of_one_and_may_take_a_moment():
    huge = replace(SPEC, block_bytes=100 * MIB)
    rates = known(blocks_s=1000, dram=4)
    probe = decide(rates, NODE, huge, [TierRun(DRAM, 5)], PROBE_AFTER_S)
    assert (probe.verdict, probe.blocks, probe.limit_s) == (Verdict.PROBE, 1, PROBE_LIMIT_S)


def test_a_tier_that_was_never_tried_is_tried_where_the_way_is_long():
    rates = known(blocks_s=8, dram=80, latency_s=100.0)
    assert asked(rates, (SSD, 8)).verdict is Verdict.PROBE


RATE = st.floats(0.1, 1000)
RUNS = st.lists(st.tuples(st.sampled_from([DRAM, SSD]), st.integers(1, 50)), min_size=1, max_size=6)


@given(RATE, RATE, RATE, RUNS)
def test_what_is_certainly_slower_is_never_loaded(blocks_s, dram, ssd, runs):
    assume(max(dram, ssd) < blocks_s * 0.99)
    assert asked(known(blocks_s=blocks_s, dram=dram, ssd=ssd), *runs).blocks == 0


@given(RATE, RATE, RATE, RUNS)
def test_what_is_certainly_faster_is_always_loaded(blocks_s, dram, ssd, runs):
    assume(min(dram, ssd) > blocks_s * 1.01)
    decision = asked(known(blocks_s=blocks_s, dram=dram, ssd=ssd), *runs)
    assert decision.blocks == sum(blocks for _, blocks in runs)


@given(RATE, RATE, RATE, st.floats(0, 10), RUNS)
def test_no_other_prefix_gains_more(blocks_s, dram, ssd, latency_s, runs):
    rates = known(blocks_s=blocks_s, dram=dram, ssd=ssd, latency_s=latency_s)
    decision = asked(rates, *runs)
    block_load_s = [
        1 / {DRAM: dram, SSD: ssd}[tier] for tier, blocks in runs for _ in range(blocks)
    ]
    gains = [0.0] + [
        count / blocks_s - latency_s - sum(block_load_s[:count])
        for count in range(1, len(block_load_s) + 1)
    ]
    assert gains[decision.blocks] == pytest.approx(max(gains), abs=1e-6)
    assert decision.limit_s >= LIMIT_S_MIN


@pytest.mark.parametrize(
    ("first_block", "blocks", "expected"),
    [
        (0, 10, [(Tier.HBM, 1), (DRAM, 2), (SSD, 3)]),
        (0, 2, [(Tier.HBM, 1), (DRAM, 1)]),
        (2, 2, [(DRAM, 1), (SSD, 1)]),
        (6, 4, []),
    ],
)
def test_where_only_counts_are_known_the_fast_tiers_come_first(first_block, blocks, expected):
    runs = runs_of_counts(TierCounts(1, 2, 3), first_block, blocks)
    assert [(run.tier, run.blocks) for run in runs] == expected


def test_blocks_of_one_tier_that_follow_each_other_are_one_run():
    assert runs_of_tiers([DRAM, DRAM, SSD, DRAM]) == [
        TierRun(DRAM, 2),
        TierRun(SSD, 1),
        TierRun(DRAM, 1),
    ]


def arriving(rates: LoadRates, mib_s: float) -> LoadRates:
    """Add what is known of arrivals: MiB, so blocks, a second."""
    rates.note_arrivals("a:1", MIB, 1 / mib_s, 0.0)
    return rates


def limit_s(rates: LoadRates, blocks: int, now_s: float = 0.0) -> float:
    return wait_limit_s(rates, "a:1", SPEC, blocks, now_s)


def test_arrivals_are_waited_for_as_long_as_it_takes_where_computing_is_not_known():
    assert limit_s(LoadRates(), 5) == math.inf


def test_unknown_arrivals_are_waited_for_as_long_as_computing_takes():
    assert limit_s(known(blocks_s=10), 5) == pytest.approx(0.5)
    assert limit_s(known(blocks_s=1000), 5) == LIMIT_S_MIN


def test_arrivals_that_are_slower_than_computing_are_not_waited_for():
    assert limit_s(arriving(known(blocks_s=10), 9), 5) == 0.0
    assert limit_s(arriving(known(blocks_s=10), 11), 5) == pytest.approx(0.5)


def test_a_slow_moment_of_arrivals_is_forgotten():
    rates = arriving(known(blocks_s=10), 9)
    assert limit_s(rates, 5, PROBE_AFTER_S - 1) == 0.0
    assert limit_s(rates, 5, PROBE_AFTER_S) == pytest.approx(0.5)
