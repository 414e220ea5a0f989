"""What every eviction policy must do, whatever its ranking."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachenode.eviction import EvictionPolicy
from cachenode.eviction.registry import POLICIES
from hearthkv.core.tier import Tier

TIERS = (Tier.DRAM, Tier.SSD)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("added"), st.integers(0, 9), st.sampled_from(TIERS)),
        st.tuples(st.just("touched"), st.integers(0, 9)),
        st.tuples(st.just("removed"), st.integers(0, 9)),
    )
)


every_policy = pytest.mark.parametrize("new_policy", POLICIES.values(), ids=POLICIES)


@every_policy
def test_a_new_policy_ranks_nothing(new_policy):
    policy: EvictionPolicy[int] = new_policy()
    assert [policy.victims(tier, 9) for tier in TIERS] == [[], []]


@every_policy
@given(steps=steps)
def test_every_entry_is_ranked_once_and_in_the_tier_where_it_was_added_last(new_policy, steps):
    policy: EvictionPolicy[int] = new_policy()
    tiers: dict[int, Tier] = {}
    for call, entry, *tier in steps:
        getattr(policy, call)(entry, *tier)
        if call == "added":
            tiers[entry] = tier[0]
        elif call == "removed":
            tiers.pop(entry, None)
    for tier in TIERS:
        expected = sorted(entry for entry in tiers if tiers[entry] is tier)
        assert sorted(policy.victims(tier, 99)) == expected
        assert policy.entry_count(tier) == len(expected)


@every_policy
@given(steps=steps, count=st.integers(0, 12))
def test_fewer_victims_are_the_first_of_more(new_policy, steps, count):
    policy: EvictionPolicy[int] = new_policy()
    for call, entry, *tier in steps:
        getattr(policy, call)(entry, *tier)
    for tier in TIERS:
        assert policy.victims(tier, count) == policy.victims(tier, 99)[:count]


@every_policy
def test_naming_victims_changes_nothing(new_policy):
    policy: EvictionPolicy[int] = new_policy()
    for entry in range(5):
        policy.added(entry, Tier.DRAM)
    assert policy.victims(Tier.DRAM, 3) == policy.victims(Tier.DRAM, 3)


@every_policy
def test_what_was_passed_over_and_touched_lets_all_others_go_first(new_policy):
    """So a caller that touches what it may not take meets every other entry before it."""
    policy: EvictionPolicy[int] = new_policy()
    for entry in range(5):
        policy.added(entry, Tier.DRAM)
    met = []
    for _ in range(5):
        (entry,) = policy.victims(Tier.DRAM, 1)
        met.append(entry)
        policy.touched(entry)
    assert sorted(met) == [0, 1, 2, 3, 4]
