"""Probation in a small queue, then a main queue."""

from cachenode.eviction.s3fifo import ROUNDS_MAX, S3Fifo
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import TurnEnd


def policy_with(entries: str, tier: Tier = Tier.DRAM) -> S3Fifo[str]:
    policy: S3Fifo[str] = S3Fifo(lambda entry: entry, lambda _: 1)
    for entry in entries:
        policy.added(entry, tier)
    return policy


def order(policy: S3Fifo[str], tier: Tier = Tier.DRAM) -> str:
    return "".join(policy.victims(tier, 99))


def test_what_was_used_again_outlives_what_came_later():
    policy = policy_with("abc")
    policy.touched("a")
    policy.added("d", Tier.DRAM)
    assert order(policy) == "bcda"


def test_warming_is_no_use_but_renews_the_place_in_the_queue():
    policy = policy_with("abc")
    policy.warmed("a")
    assert order(policy) == "bca"
    policy.touched("bc")
    policy.warmed("bx")
    assert order(policy) == "acb"


def test_a_small_queue_of_a_tenth_waits_for_the_main_one():
    policy = policy_with("abcdefghijkl")
    policy.touched("abcdefghijk")
    assert order(policy) == "abcldefghijk"
    assert policy.entry_count(Tier.DRAM) == 12


def test_what_left_on_probation_is_proven_when_it_comes_back():
    policy = policy_with("abc")
    policy.removed("a")
    policy.added("a", Tier.DRAM)
    assert order(policy) == "bca"


def test_uses_put_an_entry_off_by_rounds_up_to_a_few():
    policy = policy_with("ab")
    for _ in range(ROUNDS_MAX + 9):
        policy.touched("b")
    rounds = 0
    while True:
        policy.added(str(rounds), Tier.DRAM)
        policy.touched([str(rounds)])
        policy.removed("a")
        (first,) = policy.victims(Tier.DRAM, 1)
        policy.removed(first)
        if first == "b":
            break
        rounds += 1
    assert rounds == ROUNDS_MAX


def test_a_spared_entry_returns_to_its_queue_when_others_come():
    policy = policy_with("abc")
    policy.spared("a")
    policy.warmed("a")
    assert order(policy) == "bca"
    policy.added("d", Tier.DRAM)
    assert order(policy) == "bcda"
    policy.touched("b")
    policy.spared("b")
    policy.spared("x")
    policy.added("e", Tier.DRAM)
    assert order(policy) == "cdaeb"


def test_a_move_to_another_tier_keeps_what_was_proven():
    policy = policy_with("ab")
    policy.touched("a")
    policy.added("a", Tier.SSD)
    policy.added("b", Tier.SSD)
    assert order(policy, Tier.SSD) == "ba"
    assert policy.entry_count(Tier.DRAM) == 0


def test_what_is_unknown_or_hinted_changes_nothing():
    policy = policy_with("ab")
    policy.touched("x")
    policy.removed("x")
    policy.hinted("b", TurnEnd.FINAL, 3)
    assert order(policy) == "ab"
