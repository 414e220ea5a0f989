"""What every eviction policy must do, whatever its ranking."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachenode.eviction import EvictionPolicy
from cachenode.eviction.registry import POLICIES, new_policy
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import TurnEnd

TIERS = (Tier.DRAM, Tier.SSD)

entries = st.integers(0, 9)
prompts = st.lists(entries, unique=True, max_size=4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("added"), entries, st.sampled_from(TIERS)),
        st.tuples(st.just("touched"), prompts),
        st.tuples(st.just("warmed"), prompts),
        st.tuples(st.just("spared"), entries),
        st.tuples(st.just("hinted"), prompts, st.sampled_from(TurnEnd), st.integers(1, 40)),
        st.tuples(st.just("removed"), entries),
    )
)


def policy_after(name: str, steps) -> EvictionPolicy[int]:
    policy = new_policy(name, lambda entry: entry, lambda entry: 1 + 50 * entry)
    for call, *arguments in steps:
        getattr(policy, call)(*arguments)
    return policy


every_policy = pytest.mark.parametrize("name", POLICIES)


@every_policy
def test_a_new_policy_ranks_nothing(name):
    policy = policy_after(name, [])
    assert [policy.victims(tier, 9) for tier in TIERS] == [[], []]


@every_policy
@given(steps=steps)
def test_every_entry_is_ranked_once_and_in_the_tier_where_it_was_added_last(name, steps):
    policy = policy_after(name, steps)
    tiers: dict[int, Tier] = {}
    for call, entry, *arguments in steps:
        if call == "added":
            tiers[entry] = arguments[0]
        elif call == "removed":
            tiers.pop(entry, None)
    for tier in TIERS:
        expected = sorted(entry for entry in tiers if tiers[entry] is tier)
        assert sorted(policy.victims(tier, 99)) == expected
        assert policy.entry_count(tier) == len(expected)


@every_policy
@given(steps=steps, count=st.integers(0, 12))
def test_fewer_victims_are_the_first_of_more(name, steps, count):
    policy = policy_after(name, steps)
    for tier in TIERS:
        assert policy.victims(tier, count) == policy.victims(tier, 99)[:count]


@every_policy
@given(steps=steps)
def test_naming_victims_changes_nothing(name, steps):
    policy = policy_after(name, steps)
    assert policy.victims(Tier.DRAM, 3) == policy.victims(Tier.DRAM, 3)


@every_policy
@given(steps=steps)
def test_what_is_spared_lets_all_others_go_first(name, steps):
    """So a caller that spares what it may not take meets every entry."""
    policy = policy_after(name, steps)
    for tier in TIERS:
        expected = sorted(policy.victims(tier, 99))
        for _ in range(3):
            met = []
            for _ in expected:
                (entry,) = policy.victims(tier, 1)
                met.append(entry)
                policy.spared(entry)
            assert sorted(met) == expected


@every_policy
def test_the_end_of_a_prompt_leaves_before_its_head(name):
    policy = policy_after(name, [("added", entry, Tier.DRAM) for entry in range(5)])
    policy.warmed([4, 3, 2, 1, 0])
    assert policy.victims(Tier.DRAM, 9) == [4, 3, 2, 1, 0]
    policy.touched([4, 3, 2, 1, 0])
    assert policy.victims(Tier.DRAM, 9) == [4, 3, 2, 1, 0]
