"""A replayed cache of whole prefixes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.replay.cache import ReplayedCache, Threads, hit_percent, play
from bench.replay.optimum import optimum_hits
from bench.replay.prefix_runs import PrefixRuns, cut
from bench.replay.traces import Request, Trace
from bench.replay.turn_ends import final_ends, no_ends
from cachenode.eviction.registry import POLICIES, new_policy
from tests.unit.bench.replay.replay_kit import lru_by_blocks, random_trace, trace_of


def new_cache(policy: str, runs: PrefixRuns, capacity_blocks: int) -> ReplayedCache:
    ranked = new_policy(policy, lambda run: run, runs.block_counts.__getitem__)
    return ReplayedCache(runs, ranked, capacity_blocks)


def one_block_a_run(trace: Trace) -> PrefixRuns:
    """The same prompts as entries of one block each."""
    parents: dict[int, int] = {}
    prompts = [[first for first, _ in request.runs] for request in trace.requests]
    for prompt in prompts:
        parents |= zip(prompt, [-1, *prompt[:-1]], strict=True)
    return PrefixRuns([parents[block] for block in sorted(parents)], [1] * len(parents), prompts)


@given(st.integers(0, 99), st.integers(1, 60))
def test_lru_over_runs_gives_what_blocks_give(seed, capacity_blocks):
    trace = random_trace(seed)
    runs = cut(trace)
    hits = play(trace, runs, new_cache("lru", runs, capacity_blocks), no_ends(trace))
    assert hits == lru_by_blocks(trace, capacity_blocks)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("capacity_blocks", [20, 60, 120])
def test_runs_give_about_what_single_blocks_give(policy, capacity_blocks):
    trace = random_trace(seed=3, request_count=400)
    percents = []
    for runs in (cut(trace), one_block_a_run(trace)):
        hits = play(trace, runs, new_cache(policy, runs, capacity_blocks), no_ends(trace))
        percents.append(hit_percent(trace, hits))
    assert percents[0] == pytest.approx(percents[1], abs=3)


@pytest.mark.parametrize("policy", POLICIES)
@given(seed=st.integers(0, 99), capacity_blocks=st.integers(1, 60))
def test_no_policy_beats_the_optimum(policy, seed, capacity_blocks):
    trace = random_trace(seed)
    runs = cut(trace)
    hits = play(trace, runs, new_cache(policy, runs, capacity_blocks), no_ends(trace))
    assert sum(hits) <= sum(optimum_hits(runs, capacity_blocks))


def test_a_session_that_ended_makes_room():
    requests = [
        Request(0, 20, ((0, 2),), thread="stays"),
        Request(1, 20, ((2, 2),), thread="ends"),
        Request(2, 20, ((4, 2),), thread="other"),
        Request(3, 20, ((0, 2),), thread="stays"),
        Request(4, 20, ((4, 2),), thread="other"),
    ]
    idle = [1.0, None, 1.0, None, None]
    trace = Trace(
        "small",
        10,
        tuple(
            Request(each.at_s, each.tokens, each.runs, each.thread, idle_s=idle_s)
            for each, idle_s in zip(requests, idle, strict=True)
        ),
    )
    runs = cut(trace)
    silent, told = (
        play(trace, runs, new_cache("hit_density", runs, 4), ends(trace))
        for ends in (no_ends, final_ends)
    )
    assert silent == [0, 0, 0, 0, 2]
    assert told == [0, 0, 0, 2, 2]


def test_a_thread_owns_the_end_of_its_prompt_that_no_other_used():
    threads = Threads()
    assert threads.turn("a", [0, 1, 2]) == ([0, 1, 2], 1)
    assert threads.turn("b", [0, 3]) == ([3], 1)
    assert threads.turn("a", [0, 1, 2, 4]) == ([1, 2, 4], 2)


def test_a_hit_counts_no_more_tokens_than_its_prompt_has():
    trace = Trace("small", 10, (Request(0, 15, ((0, 2),)), Request(1, 15, ((0, 2),))))
    assert hit_percent(trace, [0, 2]) == 50.0
    assert hit_percent(trace_of([0], [1]), [0, 1]) == 50.0
