"""
Cuts the prompts of a trace into runs of blocks that no prompt ever parts. Pure.

All blocks of a run are in the same prompts, so they are used, kept and needed together, and a
replay can treat them as one. Of a run that is kept in part, the leading blocks are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.replay.traces import Trace

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PrefixRuns:
    """The runs of a trace, numbered from 0, and the prompts that are made of them."""

    parents: Sequence[int]  # the run before each; -1 for those that open prompts
    block_counts: Sequence[int]
    prompts: Sequence[Sequence[int]]  # runs of each request, in the order of the prompt

    @property
    def footprint_blocks(self) -> int:
        """Different blocks of all prompts: a cache of this size would never evict."""
        return sum(self.block_counts)


def cut(trace: Trace) -> PrefixRuns:
    """Cut a trace's prompts wherever one of them ends or two of them part."""
    prompts = [_blocks_of(request.runs) for request in trace.requests]
    number_count = 1 + max((int(blocks.max()) for blocks in prompts if blocks.size), default=-1)
    parents = np.full(number_count, -1, np.int64)
    is_end = np.zeros(number_count, np.bool_)
    for blocks in prompts:
        parents[blocks[1:]] = blocks[:-1]
        is_end[blocks[-1:]] = True
    child_counts = np.bincount(parents[parents >= 0], minlength=number_count)
    opens_run = (parents < 0) | is_end[parents] | (child_counts[parents] > 1)
    return _numbered(prompts, opens_run)


def _numbered(prompts: list[Numbers], opens_run: npt.NDArray[np.bool_]) -> PrefixRuns:
    runs: dict[int, int] = {}
    """The number of the run that a block opens."""
    run_parents: list[int] = []
    block_counts: list[int] = []
    cut_prompts: list[list[int]] = []
    for blocks in prompts:
        at = np.flatnonzero(opens_run[blocks])
        lengths = np.diff(at, append=blocks.size)
        prompt: list[int] = []
        for first, length in zip(blocks[at].tolist(), lengths.tolist(), strict=True):
            if first not in runs:
                runs[first] = len(runs)
                run_parents.append(prompt[-1] if prompt else -1)
                block_counts.append(length)
            prompt.append(runs[first])
        cut_prompts.append(prompt)
    return PrefixRuns(run_parents, block_counts, cut_prompts)


def _blocks_of(runs: Sequence[tuple[int, int]]) -> Numbers:
    parts = [np.arange(first, first + count) for first, count in runs]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
