"""One order of last use for all media."""

from hypothesis import given
from hypothesis import strategies as st

from cachenode.eviction.lru import Lru
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import TurnEnd

TIERS = (Tier.DRAM, Tier.SSD)


def policy_with(**tiers: Tier) -> Lru[str]:
    policy: Lru[str] = Lru()
    for name, tier in tiers.items():
        policy.added(name, tier)
    return policy


def test_the_least_recently_used_of_a_tier_leaves_first():
    policy = policy_with(a=Tier.DRAM, b=Tier.DRAM, c=Tier.DRAM)
    policy.touched(["a"])
    assert policy.victims(Tier.DRAM, 9) == ["b", "c", "a"]
    assert policy.entry_count(Tier.DRAM) == 3


def test_what_comes_from_another_tier_keeps_its_rank():
    policy = policy_with(early=Tier.DRAM, there=Tier.SSD, late=Tier.DRAM)
    policy.added("late", Tier.SSD)
    policy.added("early", Tier.SSD)
    assert policy.victims(Tier.SSD, 9) == ["early", "there", "late"]
    assert policy.victims(Tier.SSD, 1) == ["early"]


def test_what_came_from_another_tier_and_left_again_is_not_named():
    policy = policy_with(a=Tier.DRAM, b=Tier.DRAM, c=Tier.SSD)
    for _ in range(2):
        policy.added("a", Tier.SSD)
        policy.added("a", Tier.DRAM)
    policy.added("b", Tier.SSD)
    assert policy.victims(Tier.SSD, 9) == ["b", "c"]
    assert policy.victims(Tier.DRAM, 9) == ["a"]
    policy.removed("a")
    assert policy.victims(Tier.DRAM, 9) == []


def test_adding_to_the_same_tier_again_is_no_use():
    policy = policy_with(a=Tier.DRAM, b=Tier.DRAM)
    policy.added("a", Tier.DRAM)
    assert policy.victims(Tier.DRAM, 9) == ["a", "b"]


def test_what_is_unknown_or_hinted_changes_nothing():
    policy = policy_with(a=Tier.DRAM, b=Tier.DRAM)
    policy.touched(["x"])
    policy.removed("x")
    policy.hinted(["b"], TurnEnd.FINAL, 3)
    assert policy.victims(Tier.DRAM, 9) == ["a", "b"]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("added"), st.integers(0, 6), st.sampled_from(TIERS)),
            st.tuples(st.just("touched"), st.lists(st.integers(0, 6), max_size=3)),
            st.tuples(st.just("removed"), st.integers(0, 6)),
        )
    ),
    st.integers(1, 8),
)
def test_every_tier_is_in_the_order_of_last_use(steps, count):
    policy: Lru[int] = Lru()
    used: dict[int, Tier] = {}  # in the order of last use
    for call, argument, *tier in steps:
        getattr(policy, call)(argument, *tier)
        if call == "added":
            used[argument] = tier[0]
        elif call == "removed":
            used.pop(argument, None)
        else:
            for entry in argument:
                if entry in used:
                    used[entry] = used.pop(entry)
        for at in TIERS:
            expected = [entry for entry in used if used[entry] is at]
            assert policy.victims(at, count) == expected[:count]
