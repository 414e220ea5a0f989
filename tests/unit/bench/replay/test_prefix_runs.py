"""Prompts, cut into runs that no prompt parts."""

from hypothesis import given
from hypothesis import strategies as st

from bench.replay.prefix_runs import cut
from tests.unit.bench.replay.replay_kit import blocks_of, random_trace, trace_of


def test_prompts_are_cut_where_they_part_and_where_one_ends():
    runs = cut(trace_of([0, 1, 2, 3], [0, 1, 4], [0, 1, 2, 3, 5, 6], [7]))
    assert runs.prompts == [[0, 1], [0, 2], [0, 1, 3], [4]]
    assert runs.block_counts == [2, 2, 1, 2, 1]
    assert runs.parents == [-1, 0, 0, 1, -1]
    assert runs.footprint_blocks == 8


def test_an_empty_prompt_has_no_runs():
    assert cut(trace_of([], [0], [])).prompts == [[], [0], []]
    assert cut(trace_of([])).footprint_blocks == 0


@given(st.integers(0, 99))
def test_the_runs_of_a_prompt_have_its_blocks_and_hang_on_each_other(seed):
    trace = random_trace(seed)
    runs = cut(trace)
    for request, prompt in zip(trace.requests, runs.prompts, strict=True):
        assert sum(runs.block_counts[run] for run in prompt) == len(blocks_of(request))
        assert [runs.parents[run] for run in prompt] == [-1, *prompt[:-1]]
    assert runs.footprint_blocks == len({b for each in trace.requests for b in blocks_of(each)})
