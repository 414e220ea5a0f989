"""
What the index knows of one prompt: who holds how much of it, and in which tiers. Pure.

What a node holds is closed under prefixes (I2), so a bisection finds what all nodes hold in
O(log keys) probes for every length that occurs. A block that it meets proves those before it. One
that is missing here although the node has it costs a shorter match; one that is here and gone
there is a miss at the node. Neither gives wrong bytes (I6).

A prompt is seldom looked at in one way only, so what was probed is remembered. A view is good for
as long as the index is not changed.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from hearthkv.core.block_key import SampledKeys
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier, TierCounts
from router.block_holders import BlockHolders
from router.prefix_matches import NodeBits, PrefixGroup, PrefixMatches

TIER_PARTS = 2
"""A run of one tier that is as long as such a part of the prefix is never missed."""

TIER_STEPS = 16
"""Where a run ends is found to such a part of the prefix."""

TIER_EXACT_KEYS = 128
"""Up to so many keys the ends of runs are found exactly."""


class PromptView:
    """
    The view.

    Args:
        holders: Who holds what.
        nodes: Which bit is whose.
        namespace_id: The namespace.
        samples: Keys of the prompt. A key stands for all blocks since the key before it.
    """

    def __init__(
        self, holders: BlockHolders, nodes: NodeBits, namespace_id: bytes, samples: SampledKeys
    ) -> None:
        self._holders = holders
        self._nodes = nodes
        self._samples = samples
        self._name = (namespace_id, samples.keys.width)
        self._table = holders.tables.get(self._name)
        self._packed, self._width = samples.keys.packed, samples.keys.width
        self._known: dict[int, int] = {}  # index of a key -> its state

    def prefixes(self, settled_blocks: int = 0) -> PrefixMatches:
        """
        Return how many leading blocks each node holds.

        Where keys are sampled, that is the position of the last key that the node holds.

        Args:
            settled_blocks: Where to begin. If the longest match ends there, two probes find it.
        """
        if self._table is None:
            return PrefixMatches(self._nodes, iter(()))
        return PrefixMatches(self._nodes, self._groups(settled_blocks))

    def tiers(self, node_id: NodeId, blocks: int) -> TierCounts:
        """
        Count the first `blocks` blocks on a node by tier, with few probes.

        Blocks of a prompt lie in a few runs, since nodes move them so. The ends of the runs are
        found exactly in a short prefix, and to a 16th of a long one; a run that is shorter than
        half of it may be passed over.
        """
        return self._one_tier(node_id, blocks) or self._count_runs(node_id, blocks)

    def exact_tiers(self, node_id: NodeId, blocks: int) -> TierCounts:
        """Count the first `blocks` blocks on a node by tier; looks every key up."""
        return self._one_tier(node_id, blocks) or self._count_each(node_id, blocks)

    def _groups(self, settled_blocks: int) -> Iterator[PrefixGroup]:
        """The nodes that hold at least one key, by how many they hold, most first."""
        held, positions, state = self._holders.states.held, self._samples.positions, self._state
        settled = bisect_right(positions, settled_blocks)
        guesses = [settled, settled + 1] if settled else []
        # (low, at_low, high, at_high): whoever is in at_low holds the first `low` keys, whoever
        # is in at_high holds the first `high`, and at_high is a part of at_low (I2).
        ranges = [(0, self._nodes.mask, len(positions) + 1, 0)]
        while ranges:
            low, at_low, high, at_high = ranges.pop()
            undecided = at_low & ~at_high
            if not undecided:
                continue
            if high - low > 1:
                middle = guesses.pop() if guesses else (low + high) // 2
                if not low < middle < high:
                    middle = (low + high) // 2
                at_middle = held[state(middle - 1)] & at_low | at_high
                ranges.append((low, at_low, middle, at_middle))
                ranges.append((middle, at_middle, high, at_high))
            elif low > 0:
                yield PrefixGroup(positions[low - 1], undecided, self._nodes)

    def _one_tier(self, node_id: NodeId, blocks: int) -> TierCounts | None:
        """All blocks in the one tier that the node uses; None where it uses several."""
        used = self._holders.tiers_of(self._nodes.bits.get(node_id, 0), self._name)
        if len(used) > 1:
            return None
        counts = [0, 0, 0, 0]
        counts[used[0] if used else Tier.SSD] = blocks
        return _counts(counts)

    def _count_runs(self, node_id: NodeId, blocks: int) -> TierCounts:
        positions, bit = self._samples.positions, self._nodes.bits[node_id]
        keys = bisect_right(positions, blocks)
        if not keys:
            return TierCounts()
        part, step = keys // TIER_PARTS, 1 if keys <= TIER_EXACT_KEYS else keys // TIER_STEPS
        first, last = self._tier(0, bit), self._tier(keys - 1, bit)
        counts = [0, 0, 0, 0]  # by number of the tier: to hash one takes as long as a probe
        counts[first] = positions[0]
        runs = [(0, first, keys - 1, last)]
        while runs:
            start, at_start, end, at_end = runs.pop()
            length = end - start
            if length <= step or (length <= part and at_start == at_end):
                counts[at_end] += positions[end] - positions[start]
                continue
            middle = (start + end) // 2
            at_middle = self._tier(middle, bit)
            runs += [(start, at_start, middle, at_middle), (middle, at_middle, end, at_end)]
        return _counts(counts)

    def _count_each(self, node_id: NodeId, blocks: int) -> TierCounts:
        bit, counts, before = self._nodes.bits[node_id], [0, 0, 0, 0], 0
        for index, position in enumerate(self._samples.positions):
            if position > blocks:
                break
            counts[self._tier(index, bit)] += position - before
            before = position
        return _counts(counts)

    def _tier(self, index: int, bit: int) -> Tier:
        """Where a holding has one of the blocks; SSD, the slowest, where that is not known."""
        return self._holders.states.tier_of(self._state(index), bit) or Tier.SSD

    def _state(self, index: int) -> int:
        """The state of one of the keys."""
        state = self._known.get(index)
        if state is None:
            assert self._table is not None
            start = index * self._width  # sliced here: it is half of a probe
            key = self._packed[start : start + self._width]
            state = self._known[index] = self._table.numbers[self._table.find(key)]
        return state


def _counts(by_number: Sequence[int]) -> TierCounts:
    return TierCounts(by_number[Tier.HBM], by_number[Tier.DRAM], by_number[Tier.SSD])
