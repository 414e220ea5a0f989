"""First to leave is what promises the fewest hits for its place."""

from cachenode.eviction.hit_density import HitDensity
from cachenode.eviction.reuse_odds import STEPS, start_of
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import TurnEnd


def policy_with(entries: str, weight: int = 1) -> HitDensity[str]:
    policy: HitDensity[str] = HitDensity(lambda entry: entry, lambda _: weight)
    for entry in entries:
        policy.added(entry, Tier.DRAM)
    return policy


def order(policy: HitDensity[str], tier: Tier = Tier.DRAM) -> str:
    return "".join(policy.victims(tier, 99))


def pass_time(policy: HitDensity[str], weight: int) -> None:
    """Let something that is never used again take a place and leave it."""
    policy._pass_time(weight)


def test_before_it_has_learnt_it_ranks_by_last_use():
    policy = policy_with("abc", weight=1000)
    policy.touched("a")
    assert order(policy) == "bca"
    assert policy.entry_count(Tier.DRAM) == 3


def test_of_a_prompt_all_entries_are_of_one_age():
    policy = policy_with("abc", weight=5000)
    policy.warmed("cba")
    assert order(policy) == "cba"
    policy.warmed("bac")
    assert order(policy) == "bac"


def test_a_session_that_ended_leaves_first_and_lives_again_when_it_is_used():
    policy = policy_with("abc", weight=1000)
    policy.hinted("cx", TurnEnd.FINAL, 3)
    assert order(policy) == "cab"
    policy.hinted("c", TurnEnd.FINAL, 3)
    policy.touched("c")
    assert order(policy) == "abc"


def test_the_turns_of_a_session_show_in_its_prompt():
    """Each turn used all but the last end of the prompt once more."""
    policy = policy_with("")
    prompt = ""
    for end in "abcd":
        policy.touched(prompt[::-1])
        policy.added(end, Tier.DRAM)
        prompt += end
        policy.warmed(prompt[::-1])
    assert [policy._known[entry].turn_count for entry in prompt] == [4, 4, 4, 4]
    assert len({policy._known[entry].kind for entry in prompt}) == 1


def test_what_mostly_returns_outlives_what_never_did():
    policy = policy_with("")
    for number in range(400):
        policy.added(f"once {number}", Tier.DRAM)
        policy.added(f"often {number % 4}", Tier.DRAM)
        policy.touched([f"often {number % 4}"])
        pass_time(policy, 100)
        if number >= 40:
            policy.removed(f"once {number - 40}")
    assert all(name.startswith("once") for name in policy.victims(Tier.DRAM, 40))


def test_a_session_waiting_for_a_tool_outlives_one_waiting_for_a_person():
    policy = policy_with("")
    for number in range(300):
        policy.added("tool", Tier.DRAM)
        policy.touched(["tool"])
        policy.hinted(["tool"], TurnEnd.TOOL_CALL, 9)
        policy.added(f"person {number}", Tier.DRAM)
        policy.hinted([f"person {number}"], TurnEnd.ANSWER, 9)
        pass_time(policy, 200)
        if number >= 20:
            policy.removed(f"person {number - 20}")
    assert policy.victims(Tier.DRAM, 99)[-1] == "tool"


def test_what_comes_back_is_used_again():
    policy = policy_with("ab", weight=1000)
    policy.removed("a")
    policy.added("a", Tier.SSD)
    assert policy._known["a"].use_count == 2
    assert policy.victims(Tier.SSD, 9) == ["a"]


def test_what_is_lifted_is_as_if_just_used():
    policy = policy_with("ab", weight=1000)
    policy.added("a", Tier.SSD)
    policy.added("a", Tier.DRAM)
    assert order(policy) == "ba"


def test_a_move_down_keeps_the_age():
    policy = policy_with("ab", weight=1000)
    used_at = policy._known["a"].used_at
    policy.added("a", Tier.SSD)
    assert policy._known["a"].used_at == used_at
    assert order(policy) == "b"
    assert order(policy, Tier.SSD) == "a"


def test_a_spared_entry_is_named_last_until_it_is_a_step_older():
    policy = policy_with("abc", weight=100)
    policy.spared("a")
    policy.spared("x")
    assert order(policy) == "bca"
    pass_time(policy, 1000)
    policy.added("d", Tier.DRAM)
    assert order(policy) == "bcad"


def test_there_is_an_age_beyond_which_nothing_grows_older():
    policy = policy_with("a")
    pass_time(policy, start_of(STEPS + 4))
    policy.added("b", Tier.DRAM)
    pass_time(policy, start_of(STEPS + 4))
    assert order(policy) == "ab"
    pass_time(policy, 1)
    assert order(policy) == "ab"


def test_what_is_unknown_changes_nothing():
    policy = policy_with("ab")
    policy.touched("x")
    policy.removed("x")
    assert order(policy) == "ab"
