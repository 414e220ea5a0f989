"""Least recently used first, a list a medium."""

from cachenode.eviction.lru_with_media_priority import LruWithMediaPriority
from hearthkv.core.tier import Tier


def test_the_least_recently_used_of_a_tier_leaves_first():
    policy: LruWithMediaPriority[str] = LruWithMediaPriority()
    for name in "abc":
        policy.added(name, Tier.DRAM)
    policy.touched("a")
    assert policy.victims(Tier.DRAM, 9) == ["b", "c", "a"]


def test_a_use_in_one_medium_changes_no_rank_in_another():
    policy: LruWithMediaPriority[str] = LruWithMediaPriority()
    policy.added("old", Tier.SSD)
    policy.added("new", Tier.SSD)
    policy.added("hot", Tier.DRAM)
    policy.touched("hot")
    assert policy.victims(Tier.SSD, 9) == ["old", "new"]


def test_what_comes_from_another_tier_is_the_hottest_of_its_new_one():
    policy: LruWithMediaPriority[str] = LruWithMediaPriority()
    policy.added("there", Tier.SSD)
    policy.added("demoted", Tier.DRAM)
    policy.added("demoted", Tier.SSD)
    assert policy.victims(Tier.SSD, 9) == ["there", "demoted"]
