"""Counting by tier."""

from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.tier import Tier, TierCounts, TierUsage


def test_tiers_are_ordered_from_fast_to_slow():
    assert sorted(Tier) == [Tier.HBM, Tier.DRAM, Tier.SSD]


@given(st.lists(st.sampled_from(Tier)))
def test_counts_are_those_of_the_tiers(tiers):
    counts = TierCounts.count(tiers)
    assert [counts.of(tier) for tier in Tier] == [tiers.count(tier) for tier in Tier]
    assert counts.total == len(tiers)


def test_a_tier_is_well_unless_it_says_otherwise():
    assert TierUsage(Tier.SSD, 1, 2, 3, 4).trouble == ""


@given(st.lists(st.sampled_from(Tier)), st.lists(st.sampled_from(Tier)))
def test_counts_add_up_tier_by_tier(left, right):
    assert TierCounts.count(left) + TierCounts.count(right) == TierCounts.count(left + right)
