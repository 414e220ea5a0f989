"""Policies by name."""

from cachenode.eviction.registry import POLICIES, policy_named
from hearthkv.core.kv_cache_settings import EVICTION_POLICIES


def test_every_policy_that_settings_allow_has_its_class():
    assert set(POLICIES) == set(EVICTION_POLICIES)


def test_every_call_gives_a_policy_of_its_own():
    for name in POLICIES:
        assert policy_named(name) is not policy_named(name)
