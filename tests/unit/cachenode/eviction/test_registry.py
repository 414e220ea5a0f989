"""Policies by name."""

import pytest

from cachenode.eviction.hit_density import HitDensity
from cachenode.eviction.lru import Lru
from cachenode.eviction.lru_with_media_priority import LruWithMediaPriority
from cachenode.eviction.registry import POLICIES, policy_named
from cachenode.eviction.s3fifo import S3Fifo
from hearthkv.core.kv_cache_settings import EVICTION_POLICIES
from hearthkv.core.tier import Tier
from tests.unit.cachenode import catalog_kit


def test_settings_allow_the_policies_that_there_are_in_the_same_order():
    assert POLICIES == EVICTION_POLICIES


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("lru_with_media_priority", LruWithMediaPriority),
        ("lru", Lru),
        ("s3fifo", S3Fifo),
        ("hit_density", HitDensity),
    ],
)
def test_a_name_gives_a_policy_of_its_own_of_that_kind(name, kind):
    first, second = policy_named(name), policy_named(name)
    assert type(first) is kind
    assert first is not second


@pytest.mark.parametrize("name", ["s3fifo", "hit_density"])
def test_a_block_that_comes_back_as_another_object_is_recognised(name):
    holdings = catalog_kit.new_holdings()
    first = catalog_kit.hold(holdings, 1)
    policy = policy_named(name)
    policy.added(first, Tier.DRAM)
    for number in range(2, 5):
        policy.added(catalog_kit.hold(holdings, number), Tier.DRAM)
    policy.removed(first)
    holdings.remove(first)
    again = catalog_kit.hold(holdings, 1)
    policy.added(again, Tier.DRAM)
    assert again is not first
    assert policy.victims(Tier.DRAM, 9)[-1] is again
