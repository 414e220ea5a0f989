"""Tests of `cachenode.pull_runs`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachenode.pull_runs import PullRun, PullRuns
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.pulls import PullEnd, PullQuery

NAMESPACE, OTHER = b"n" * 16, b"m" * 16
A, B = "a:1", "b:1"


def keys_of(text: str) -> PackedKeys:
    """A key a letter."""
    return PackedKeys(text.encode(), 1)


def query(text: str, source: str = A, *, is_tip_only: bool = False) -> PullQuery:
    keys = PackedKeys(b"") if is_tip_only else keys_of(text)
    return PullQuery(NAMESPACE, keys, text[-1].encode(), source)


def begun(runs: PullRuns, text: str, source: str = A, *, is_known: bool = True) -> PullRun:
    asked = query(text, source, is_tip_only=not is_known)
    run = runs.begin(asked, blocks=len(text), is_ordered=False)
    assert run is not None
    if is_known:
        runs.learn(run, keys_of(text))
    return run


def test_there_is_a_bound():
    runs = PullRuns(2)
    first = begun(runs, "abc")
    begun(runs, "xyz")
    assert runs.begin(query("pq"), is_ordered=True) is None
    runs.end(first, PullEnd.MISS)
    assert first.end is PullEnd.MISS
    assert (len(runs), len(list(runs))) == (1, 1)


@pytest.mark.parametrize(
    ("text", "source", "is_joined"),
    [
        ("abc", A, True),
        ("ab", A, True),
        ("ab", "", True),
        ("abcd", A, False),
        ("abc", B, False),
        ("x", A, False),
    ],
    ids=["same", "ancestor", "any-source", "longer", "other-source", "other-prompt"],
)
def test_what_a_pull_brings_is_joined(text: str, source: str, is_joined: bool):
    runs = PullRuns(2)
    run = begun(runs, "abc")
    assert runs.joinable(query(text, source)) is (run if is_joined else None)
    assert runs.joinable(query(text, source, is_tip_only=True)) is (run if is_joined else None)


def test_before_its_keys_are_known_a_pull_is_known_by_its_tip():
    runs = PullRuns(2)
    run = begun(runs, "abc", is_known=False)
    assert runs.joinable(query("abc")) is run
    assert runs.joinable(query("ab")) is None
    assert runs.arriving_blocks(NAMESPACE, keys_of("abcd"), 0) == 3
    assert runs.arriving_blocks(NAMESPACE, keys_of("ab"), 0) == 0
    assert runs.arriving_blocks(NAMESPACE, keys_of("abx"), 0) == 0


def test_namespaces_do_not_meet():
    runs = PullRuns(2)
    run = begun(runs, "abc")
    assert runs.arriving_blocks(OTHER, keys_of("abc"), 0) == 0
    assert runs.bringer(OTHER, b"a", None) is None
    assert run.blocks_to(OTHER, b"c") is None


def test_what_arrives_is_at_least_what_is_held():
    runs = PullRuns(2)
    assert runs.arriving_blocks(NAMESPACE, keys_of("abcd"), 1) == 1
    begun(runs, "abc")
    assert runs.arriving_blocks(NAMESPACE, keys_of("abcd"), 1) == 3
    assert runs.arriving_blocks(NAMESPACE, keys_of("abcd"), 4) == 4
    assert runs.arriving_blocks(NAMESPACE, keys_of("ax"), 0) == 1


def test_a_pull_waits_for_those_only_that_knew_their_keys_before():
    runs = PullRuns(4)
    first, second = begun(runs, "abc"), begun(runs, "abcd")
    assert runs.bringer(NAMESPACE, b"a", second) is first
    assert runs.bringer(NAMESPACE, b"a", first) is None
    assert runs.bringer(NAMESPACE, b"d", second) is None
    assert runs.bringer(NAMESPACE, b"d", None) is second
    runs.end(first, None)
    assert runs.bringer(NAMESPACE, b"a", second) is None


def test_a_pull_is_whole_when_all_of_it_is_held():
    run = begun(PullRuns(1), "abc", is_known=False)
    assert not run.is_whole
    run.learn(keys_of("abc"), 1)
    run.held_blocks = 3
    assert run.is_whole


# Prompts that share beginnings: a letter stands for its own path, as chained keys do.
PROMPTS = ["ab", "abc", "abcd", "abx", "abxy", "pq", "pqr"]


@given(
    st.lists(st.sampled_from(PROMPTS), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), max_size=6),
)
def test_nobody_waits_in_a_circle_and_somebody_brings_each_block(prompts, over):
    runs = PullRuns(10)
    under_way = [begun(runs, text) for text in prompts]
    for index in set(over):
        if index < len(under_way):
            runs.end(under_way[index], PullEnd.UNAVAILABLE)
    for run in runs:
        assert run.keys is not None
        for key in run.keys:
            waiter, waited = run, []
            while (bringer := runs.bringer(NAMESPACE, key, waiter)) is not None:
                waited.append(waiter)
                assert bringer not in waited
                waiter = bringer
            assert waiter.has(NAMESPACE, key)
