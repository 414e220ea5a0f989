"""
What no policy can beat: evict what is needed last, and do not even admit it. Pure.

Belady's MIN with bypass, which is optimal for blocks of one size. It keeps whole prefixes by
itself: a block is needed no later than any that hang on it, and of two that are needed at the
same time the deeper one goes first.
"""

from heapq import heappop, heappush

from bench.replay.prefix_runs import PrefixRuns

NEVER = 2**62


def optimum_hits(runs: PrefixRuns, capacity_blocks: int) -> list[int]:
    """Return how many leading blocks of each prompt the optimum holds when it is asked for."""
    next_uses = _next_uses(runs)
    held = [0] * len(runs.block_counts)
    needed = [NEVER] * len(held)
    free_blocks = capacity_blocks
    furthest: list[tuple[int, int, int]] = []
    """(-next use, -index in the prompt, run); stale where `needed` says otherwise."""
    hits = []
    for index, prompt in enumerate(runs.prompts):
        hits.append(sum(held[run] for run in prompt))
        for depth, run in enumerate(prompt):
            needed[run] = next_uses[index][depth]
            free_blocks += held[run] - runs.block_counts[run]
            held[run] = runs.block_counts[run]
            heappush(furthest, (-needed[run], -depth, run))
        while free_blocks < 0 or (furthest and furthest[0][0] == -NEVER):
            use, _, run = furthest[0]
            if -use != needed[run] or not held[run]:
                heappop(furthest)
                continue
            surplus = held[run] if -use == NEVER else min(held[run], -free_blocks)
            held[run] -= surplus
            free_blocks += surplus
    return hits


def _next_uses(runs: PrefixRuns) -> list[list[int]]:
    """For each run of each prompt, the request that has it next."""
    upcoming = [NEVER] * len(runs.block_counts)
    next_uses: list[list[int]] = []
    for index in range(len(runs.prompts) - 1, -1, -1):
        prompt = runs.prompts[index]
        next_uses.append([upcoming[run] for run in prompt])
        for run in prompt:
            upcoming[run] = index
    next_uses.reverse()
    return next_uses
