"""Tests of hearthkv/client/load_rates.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.client.load_rates import (
    KNOWN_MAX,
    PREFILL_TOKENS_MIN,
    LoadRates,
    ReadPath,
    ReadSample,
    Source,
)
from hearthkv.core.tier import Tier

MIB = 1024 * 1024
NODE = Source("127.0.0.1:1", ReadPath.DIRECT)
MODEL = b"n" * 16


def read(size_bytes: int, seconds: float, tier: Tier = Tier.DRAM) -> ReadSample:
    return ReadSample({tier: size_bytes}, 0.0, seconds)


def rate_after(*samples: ReadSample) -> float | None:
    rates = LoadRates()
    for sample in samples:
        rates.note_read(NODE, sample, 0.0)
    source = rates.source(NODE)
    return source.by_tier[Tier.DRAM] if source else None


def prefill_after(*prefills: tuple[int, float]) -> float | None:
    rates = LoadRates()
    for tokens, seconds in prefills:
        rates.note_prefill(MODEL, tokens, seconds)
    return rates.prefill_rate(MODEL)


def test_nothing_is_known_at_first():
    assert (rate_after(), prefill_after()) == (None, None)


def test_the_first_value_is_the_estimate():
    assert rate_after(read(2 * MIB, 2.0)) == MIB
    assert prefill_after((1000, 2.0)) == 500


def test_of_two_values_the_one_that_speaks_for_loading_counts():
    assert rate_after(read(2 * MIB, 2.0), read(2 * MIB, 1.0)) == 2 * MIB
    assert prefill_after((1000, 2.0), (1000, 1.0)) == 500


@given(st.lists(st.sampled_from([0.9, 1.0, 1.1]), min_size=2, max_size=8), st.data())
def test_one_value_that_is_far_off_changes_nothing(seconds: list[float], data: st.DataObject):
    place = data.draw(st.integers(0, len(seconds)))
    outlier = data.draw(st.sampled_from([1e-6, 1e6]))
    samples = [read(MIB, s) for s in [*seconds[:place], outlier, *seconds[place:]]]
    rate = rate_after(*samples)
    assert rate is not None
    assert rate * 1.0000001 >= MIB / 1.1
    assert rate <= MIB / 0.9 * 1.0000001


def test_a_lasting_change_is_believed_after_two_more_reads():
    slow, fast = read(MIB, 10.0), read(MIB, 1.0)
    assert rate_after(fast, fast, fast, slow) == MIB
    assert rate_after(fast, fast, fast, slow, slow) == MIB / 10


@pytest.mark.parametrize(
    "sample",
    [read(MIB - 1, 0.0199), read(0, 5.0), read(MIB, 0.0), read(MIB, -1.0), ReadSample({}, 1, 1)],
    ids=["short", "nothing", "no-time", "back-in-time", "no-tier"],
)
def test_what_tells_nothing_is_passed_over(sample: ReadSample):
    assert rate_after(sample) is None


def test_little_that_took_long_tells_enough():
    assert rate_after(read(1000, 10.0)) == 100


@pytest.mark.parametrize(
    "prefill", [(PREFILL_TOKENS_MIN - 1, 1.0), (1000, 0.0), (1000, -1.0)], ids=str
)
def test_a_prefill_that_tells_nothing_is_passed_over(prefill: tuple[int, float]):
    assert prefill_after(prefill) is None


def test_the_time_of_a_mixed_read_is_shared_by_what_is_known():
    rates = LoadRates()
    rates.note_read(NODE, read(8 * MIB, 1.0), 0.0)
    rates.note_read(NODE, read(2 * MIB, 1.0, Tier.SSD), 0.0)
    # 1 s of DRAM and 1 s of SSD were expected, and it took 4 s: both are half as fast.
    for _ in range(2):
        mixed = {Tier.DRAM: 8 * MIB, Tier.SSD: 2 * MIB, Tier.HBM: 0}
        rates.note_read(NODE, ReadSample(mixed, 0.0, 4.0), 0.0)
    source = rates.source(NODE)
    assert source is not None
    assert source.by_tier == {Tier.DRAM: 4 * MIB, Tier.SSD: MIB}


def test_tiers_that_were_only_read_together_have_the_same_rate():
    rates = LoadRates()
    rates.note_read(NODE, ReadSample({Tier.DRAM: 3 * MIB, Tier.SSD: MIB}, 0.0, 4.0), 0.0)
    source = rates.source(NODE)
    assert source is not None
    assert source.by_tier == {Tier.DRAM: MIB, Tier.SSD: MIB}


def test_the_latency_is_known_too():
    rates = LoadRates()
    for latency_s in (-1.0, 0.5, 0.3):
        rates.note_read(NODE, ReadSample({Tier.DRAM: MIB}, latency_s, 1.0), 0.0)
    source = rates.source(NODE)
    assert source is not None
    assert source.latency_s == 0.3


def test_a_tier_is_idle_since_it_was_read_or_tried():
    rates = LoadRates()
    rates.note_read(NODE, read(MIB, 1.0), 10.0)
    source = rates.source(NODE)
    assert source is not None
    assert source.idle_s(Tier.DRAM, 17.0) == 7.0
    assert source.idle_s(Tier.SSD, 17.0) is None
    source.try_again(Tier.DRAM, 15.0)
    assert source.idle_s(Tier.DRAM, 17.0) == 2.0


def test_paths_and_nodes_and_models_have_figures_of_their_own():
    rates = LoadRates()
    rates.note_read(NODE, read(MIB, 1.0), 0.0)
    rates.note_prefill(MODEL, 1000, 1.0)
    assert rates.source(Source(NODE.address, ReadPath.STREAM)) is None
    assert rates.source(Source("127.0.0.1:2", ReadPath.DIRECT)) is None
    assert rates.prefill_rate(b"m" * 16) is None


def test_what_is_remembered_has_a_maximum():
    rates = LoadRates()
    for number in range(KNOWN_MAX + 1):
        rates.note_read(Source(str(number), ReadPath.DIRECT), read(MIB, 1.0), 0.0)
        rates.note_read(Source("1", ReadPath.DIRECT), read(MIB, 1.0), 0.0)
    assert rates.source(Source("0", ReadPath.DIRECT)) is None
    assert rates.source(Source("1", ReadPath.DIRECT)) is not None


def test_arrivals_are_known_by_node_and_the_higher_of_two_counts():
    rates = LoadRates()
    rates.note_arrivals("a:1", 10_000_000, 1.0, 0.0)
    rates.note_arrivals("a:1", 20_000_000, 1.0, 1.0)
    assert rates.arrival_rate("a:1", 2.0, 30.0) == 20_000_000
    assert rates.arrival_rate("b:1", 2.0, 30.0) is None


@pytest.mark.parametrize(("size_bytes", "seconds"), [(0, 5.0), (1000, 0.001)], ids=["none", "few"])
def test_too_few_arrivals_tell_nothing(size_bytes: int, seconds: float):
    rates = LoadRates()
    rates.note_arrivals("a:1", size_bytes, seconds, 0.0)
    assert rates.arrival_rate("a:1", 0.0, 30.0) is None
