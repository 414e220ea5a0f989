"""
A cache of whole prefixes under an eviction policy of the cache node.

It is one tier. Its entries are the runs of `bench.replay.prefix_runs`; of a run that is evicted in
part, the leading blocks stay. A request is one moment: it reads the longest prefix held, then all
its blocks are held, its turn ends, and the cache shrinks to its capacity. So a prompt may push out
others and its own end.
"""

from collections.abc import Callable, Sequence

from bench.replay.prefix_runs import PrefixRuns
from bench.replay.traces import Trace
from bench.replay.turn_ends import TurnEnds
from cachenode.eviction import EvictionPolicy
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import TurnEnd

TIER = Tier.DRAM
VICTIMS_BATCH = 8


Changed = Callable[[int, int, int], None]
"""Hears of a run, and of how many of its leading blocks were held before and are held now."""


def unheard(_run: int, _before: int, _now: int) -> None:
    """Hear nothing."""


class ReplayedCache:
    """A cache in the middle of a trace."""

    def __init__(
        self,
        runs: PrefixRuns,
        policy: EvictionPolicy[int],
        capacity_blocks: int,
        changed: Changed = unheard,
    ) -> None:
        self._changed = changed
        self._runs = runs
        self._policy = policy
        self._free_blocks = capacity_blocks
        self._held = [0] * len(runs.block_counts)
        """Leading blocks held of each run; none where the run before is not held whole."""

        self._children = [0] * len(runs.block_counts)
        """Runs that hang on each and are held, at least in part."""

    def held(self, prompt: Sequence[int]) -> int:
        """Return how many leading blocks of a prompt are held."""
        return sum(self._held[run] for run in prompt)

    def use(self, prompt: Sequence[int]) -> int:
        """Read and write a prompt, and return how many leading blocks were held."""
        hits = self.held(prompt)
        self._policy.touched([run for run in reversed(prompt) if self._held[run]])
        for run in prompt:
            if not self._held[run]:
                self._policy.added(run, TIER)
                self._count_child(run, 1)
            before, blocks = self._held[run], self._runs.block_counts[run]
            if before < blocks:
                self._free_blocks -= blocks - before
                self._held[run] = blocks
                self._changed(run, before, blocks)
        self._policy.warmed(reversed(prompt))
        return hits

    def end_turn(self, own: Sequence[int], turn_end: TurnEnd, turn_count: int) -> None:
        """Tell the policy how a turn ended. `own` are the runs that its session alone uses."""
        self._policy.hinted(reversed(own), turn_end, turn_count)

    def shrink(self) -> None:
        """Evict what is above the capacity, the ends of prompts first."""
        while self._free_blocks < 0:
            for run in self._policy.victims(TIER, VICTIMS_BATCH):
                if self._free_blocks >= 0:
                    return
                if self._children[run]:
                    self._policy.spared(run)
                else:
                    self._evict(run, min(self._held[run], -self._free_blocks))

    def _evict(self, run: int, block_count: int) -> None:
        before = self._held[run]
        self._held[run] -= block_count
        self._free_blocks += block_count
        self._changed(run, before, before - block_count)
        if not self._held[run]:
            self._policy.removed(run)
            self._count_child(run, -1)

    def _count_child(self, run: int, change: int) -> None:
        parent = self._runs.parents[run]
        if parent >= 0:
            self._children[parent] += change


class Threads:
    """Who uses which runs, and how often each thread asked."""

    def __init__(self) -> None:
        self._owners: dict[int, str] = {}
        self._turn_counts: dict[str, int] = {}

    def turn(self, thread: str, prompt: Sequence[int]) -> tuple[Sequence[int], int]:
        """Note a turn; return the end of its prompt that no other thread used, and its number."""
        self._turn_counts[thread] = self._turn_counts.get(thread, 0) + 1
        shared = 0
        for index, run in enumerate(prompt):
            if self._owners.setdefault(run, thread) != thread:
                self._owners[run] = ""
                shared = index + 1
        return prompt[shared:], self._turn_counts[thread]


def play(trace: Trace, runs: PrefixRuns, cache: ReplayedCache, ends: TurnEnds) -> list[int]:
    """Play a trace, and return how many leading blocks of each prompt were hit."""
    threads = Threads()
    hits = []
    for request, prompt, turn_end in zip(trace.requests, runs.prompts, ends, strict=True):
        hits.append(cache.use(prompt))
        own, turn_count = threads.turn(request.thread, prompt)
        if turn_end is not None:
            cache.end_turn(own, turn_end, turn_count)
        cache.shrink()
    return hits


def hit_percent(trace: Trace, hits: Sequence[int]) -> float:
    """Return the share of the prompts' tokens that was hit, in percent."""
    hit_tokens = (
        min(blocks * trace.block_tokens, request.tokens)
        for blocks, request in zip(hits, trace.requests, strict=True)
    )
    return 100 * sum(hit_tokens) / trace.tokens
