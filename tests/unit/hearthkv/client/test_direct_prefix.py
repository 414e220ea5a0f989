"""Tests of hearthkv/client/direct_prefix.py."""

from hypothesis import given
from hypothesis import strategies as st

from hearthkv.client.direct_prefix import DirectPrefix
from hearthkv.core.tier import Tier, TierCounts

TIERS = [Tier.DRAM, Tier.SSD, Tier.DRAM, Tier.DRAM]


def test_blocks_count_once_those_before_them_are_there():
    prefix = DirectPrefix(TIERS)
    prefix.arrived(1)
    assert (prefix.blocks, prefix.is_over) == (0, False)
    prefix.arrived(0)
    assert (prefix.blocks, prefix.by_tier) == (2, TierCounts(dram=1, ssd=1))


def test_all_blocks_end_it():
    prefix = DirectPrefix(TIERS)
    for block in (3, 2, 1, 0):
        prefix.arrived(block)
    assert (prefix.is_over, prefix.is_complete) == (True, True)


def test_the_first_block_that_fails_ends_it():
    prefix = DirectPrefix(TIERS)
    prefix.arrived(0)
    prefix.failed(3)
    prefix.failed(1)
    prefix.failed(2)
    assert (prefix.blocks, prefix.end) == (1, 1)
    assert (prefix.is_over, prefix.is_complete) == (True, False)


def test_nothing_is_over_and_complete_at_once():
    prefix = DirectPrefix([])
    assert (prefix.is_over, prefix.is_complete) == (True, True)


@given(st.permutations(range(6)), st.sets(st.integers(0, 5)))
def test_what_counts_is_the_run_before_the_first_failure(order, failing):
    prefix = DirectPrefix([Tier.DRAM] * 6)
    blocks = 0
    for block in order:
        if block in failing:
            prefix.failed(block)
        else:
            prefix.arrived(block)
        assert blocks <= prefix.blocks <= prefix.end
        blocks = prefix.blocks
    assert prefix.blocks == prefix.end == min(failing, default=6)
