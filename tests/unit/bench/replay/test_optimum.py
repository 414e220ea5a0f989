"""What no policy can beat."""

from hypothesis import given
from hypothesis import strategies as st

from bench.replay.optimum import optimum_hits
from bench.replay.prefix_runs import cut
from tests.unit.bench.replay.replay_kit import optimum_by_blocks, random_trace, trace_of


def test_what_is_never_needed_again_is_not_admitted():
    trace = trace_of([0, 1], [2, 3], [0, 1])
    assert optimum_hits(cut(trace), 2) == [0, 0, 2]


def test_of_what_is_needed_at_once_the_head_stays():
    trace = trace_of([0, 1, 2, 3], [0, 1, 2, 3])
    assert optimum_hits(cut(trace), 3) == [0, 3]


@given(st.integers(0, 99), st.integers(1, 60))
def test_runs_give_what_blocks_give(seed, capacity_blocks):
    trace = random_trace(seed)
    assert optimum_hits(cut(trace), capacity_blocks) == optimum_by_blocks(trace, capacity_blocks)
