"""
The nodes of a replay: caches of one size, which tell what comes and goes as block events.

A turn is one moment: its node fetches what another one holds more of, computes the rest, holds
all of it, and shrinks to its capacity.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from bench.replay.cache import ReplayedCache
from bench.replay.prefix_runs import PrefixRuns
from cachenode.eviction.registry import new_policy
from hearthkv.core.block_key import KEY_WIDTH, PackedKeys, SampledKeys
from hearthkv.core.routing import BlockEvent
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier

NAMESPACE_ID = b"replayed traffic"
POLICY = "lru_with_media_priority"
KEYS_GAP_TOKENS = 256


class RunKeys:
    """
    Keys of the blocks of a trace: those of every `KEYS_GAP_TOKENS` of a run, and of its last.

    A client names as few to a router, where prompts are long.
    """

    def __init__(self, runs: PrefixRuns, block_tokens: int) -> None:
        step = max(1, KEYS_GAP_TOKENS // block_tokens)
        self._positions = [
            (*range(step, block_count, step), block_count) for block_count in runs.block_counts
        ]
        self._packed = [
            b"".join(run.to_bytes(8) + position.to_bytes(8) for position in positions)
            for run, positions in enumerate(self._positions)
        ]

    def between(self, run: int, held: int, more: int) -> PackedKeys:
        """The keys that `more` leading blocks of a run have beyond those of `held`."""
        first, last = (bisect_right(self._positions[run], blocks) for blocks in (held, more))
        return PackedKeys(self._packed[run][first * KEY_WIDTH : last * KEY_WIDTH])

    def of_prompt(self, prompt: Sequence[int]) -> SampledKeys:
        """The keys of a prompt."""
        positions: list[int] = []
        blocks = 0
        for run in prompt:
            positions += [blocks + position for position in self._positions[run]]
            blocks = positions[-1]
        return SampledKeys(PackedKeys(b"".join(self._packed[run] for run in prompt)), positions)


@dataclass(slots=True)
class Tally:
    """What happened on a node so far."""

    computed_tokens: int = 0
    pulled_blocks: int = 0


class ReplayedNode:
    """A node in the middle of a trace."""

    def __init__(self, runs: PrefixRuns, keys: RunKeys, capacity_blocks: int) -> None:
        policy = new_policy(POLICY, lambda run: run, runs.block_counts.__getitem__)
        self.cache = ReplayedCache(runs, policy, capacity_blocks, self._note)
        self.tally = Tally()
        self._keys = keys
        self._events: list[BlockEvent] = []

    def serve(self, prompt: Sequence[int], pulled_blocks: int) -> None:
        """Hold a prompt, of which some blocks come from another node."""
        self.tally.pulled_blocks += pulled_blocks
        self.cache.use(prompt)
        self.cache.shrink()

    def take_events(self) -> tuple[BlockEvent, ...]:
        """Return what came and went since the last call."""
        events = tuple(self._events)
        self._events.clear()
        return events

    def _note(self, run: int, before: int, now: int) -> None:
        keys = self._keys.between(run, min(before, now), max(before, now))
        if keys:
            tier = Tier.DRAM if now > before else None
            self._events.append(BlockEvent(NAMESPACE_ID, keys, tier))


@dataclass(frozen=True, slots=True)
class Turn:
    """One request, as the contenders see it."""

    session_id: SessionId
    prompt: Sequence[int]
    tokens: int
    at_s: float
