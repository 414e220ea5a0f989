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
from collections.abc import Iterator, Mapping
from itertools import islice, pairwise

from hearthkv.core.block_key import SampledKeys
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier, TierCounts
from router.block_holders import BlockHolders
from router.prefix_matches import NodeBits, PrefixGroup, PrefixMatches

TIER_PARTS = 4
"""A run of one tier that is as long as such a part of the prefix is never missed."""

TIER_STEPS = 64
"""Where a run ends is found to such a part of the prefix, and exactly where it has fewer keys."""


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

    def prefixes(self) -> PrefixMatches:
        """
        Return how many leading blocks each node holds.

        Where keys are sampled, that is the position of the last key that the node holds.
        """
        return PrefixMatches(self._nodes, iter(()) if self._table is None else self._groups())

    def tiers(self, node_id: NodeId, blocks: int) -> TierCounts:
        """
        Count the first `blocks` blocks on a node by tier, with few probes.

        Blocks of a prompt lie in a few runs, since nodes move them so. The ends of the runs are
        found to a 64th of the prefix; one that is shorter than a quarter may be passed over.
        """
        keys = bisect_right(self._samples.positions, blocks)
        return self._one_tier(node_id, blocks) or self._count_runs(node_id, keys)

    def exact_tiers(self, node_id: NodeId, blocks: int) -> TierCounts:
        """Count the first `blocks` blocks on a node by tier; looks every key up."""
        keys = bisect_right(self._samples.positions, blocks)
        return self._one_tier(node_id, blocks) or self._count_each(node_id, keys)

    def _groups(self) -> Iterator[PrefixGroup]:
        """The nodes that hold at least one key, by how many they hold, most first."""
        held, positions = self._holders.states.held, self._samples.positions
        # (low, at_low, high, at_high): whoever is in at_low holds the first `low` keys, whoever
        # is in at_high holds the first `high`, and at_high is a part of at_low (I2).
        ranges = [(0, self._nodes.mask, len(self._samples) + 1, 0)]
        while ranges:
            low, at_low, high, at_high = ranges.pop()
            undecided = at_low & ~at_high
            if not undecided:
                continue
            if high - low > 1:
                middle = (low + high) // 2
                at_middle = held[self._state(middle - 1)] & at_low | at_high
                ranges.append((low, at_low, middle, at_middle))
                ranges.append((middle, at_middle, high, at_high))
            elif low > 0:
                yield PrefixGroup(positions[low - 1], undecided, self._nodes)

    def _one_tier(self, node_id: NodeId, blocks: int) -> TierCounts | None:
        """All blocks in the one tier that the node uses; None where it uses several."""
        used = self._holders.tiers_of(self._nodes.bits.get(node_id, 0), self._name)
        if len(used) > 1:
            return None
        tier = used[0] if used else Tier.SSD
        return _counts({tier: blocks})

    def _count_runs(self, node_id: NodeId, keys: int) -> TierCounts:
        if not keys:
            return TierCounts()
        positions, bit = self._samples.positions, self._nodes.bits[node_id]
        part, step = keys // TIER_PARTS, keys // TIER_STEPS
        counts = dict.fromkeys(Tier, 0)
        counts[self._tier(0, bit)] = positions[0]
        # What the search for the prefix has probed costs nothing.
        runs = list(pairwise(sorted({0, keys - 1, *(at for at in self._known if at < keys)})))
        while runs:
            before, last = runs.pop()
            length, tier = last - before, self._tier(last, bit)
            is_one_run = length <= part and tier == self._tier(before, bit)
            if is_one_run or length <= max(step, 1):
                counts[tier] += positions[last] - positions[before]
            else:
                middle = (before + last) // 2
                runs += [(before, middle), (middle, last)]
        return _counts(counts)

    def _count_each(self, node_id: NodeId, keys: int) -> TierCounts:
        bit, counts, before = self._nodes.bits[node_id], dict.fromkeys(Tier, 0), 0
        for index, position in enumerate(islice(self._samples.positions, keys)):
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


def _counts(blocks: Mapping[Tier, int]) -> TierCounts:
    return TierCounts(blocks.get(Tier.HBM, 0), blocks.get(Tier.DRAM, 0), blocks.get(Tier.SSD, 0))
