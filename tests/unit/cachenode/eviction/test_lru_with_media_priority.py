"""Least recently used first, a list a medium."""

from cachenode.eviction.lru_with_media_priority import LruWithMediaPriority
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import TurnEnd


def policy_with(**tiers: Tier) -> LruWithMediaPriority[str]:
    policy: LruWithMediaPriority[str] = LruWithMediaPriority()
    for name, tier in tiers.items():
        policy.added(name, tier)
    return policy


def test_the_least_recently_used_of_a_tier_leaves_first():
    policy = policy_with(a=Tier.DRAM, b=Tier.DRAM, c=Tier.DRAM)
    policy.touched(["a"])
    assert policy.victims(Tier.DRAM, 9) == ["b", "c", "a"]
    assert policy.entry_count(Tier.DRAM) == 3


def test_a_use_in_one_medium_changes_no_rank_in_another():
    policy = policy_with(old=Tier.SSD, new=Tier.SSD, hot=Tier.DRAM)
    policy.touched(["hot"])
    assert policy.victims(Tier.SSD, 9) == ["old", "new"]


def test_what_comes_from_another_tier_is_the_hottest_of_its_new_one():
    policy = policy_with(there=Tier.SSD, demoted=Tier.DRAM)
    policy.added("demoted", Tier.SSD)
    assert policy.victims(Tier.SSD, 9) == ["there", "demoted"]


def test_what_is_unknown_or_hinted_changes_nothing():
    policy = policy_with(a=Tier.DRAM, b=Tier.DRAM)
    policy.touched(["x"])
    policy.removed("x")
    policy.hinted(["b"], TurnEnd.FINAL, 3)
    assert policy.victims(Tier.DRAM, 9) == ["a", "b"]
