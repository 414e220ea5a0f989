"""
Which node holds which block, and who holds the longest prefix of a prompt. Pure.

Two views of the same facts. A *holding* is what one node reported, key -> tier. A *holder set*
is an integer with a bit for each holding that has a key; equal sets are one object, and a
namespace maps keys to them. A lookup bisects over holder sets, so the prefixes of all nodes
come out of O(log blocks) probes; tiers are counted from the holding of the node that matters.

What a node holds is closed under prefixes (I2): with block i it holds all blocks before. So a
block that bisection meets proves those before it. One that is missing here although the node
has it, for lack of room or because the news is under way, costs a shorter match; one that is
here and gone there is a miss at the node. Neither gives wrong bytes (I6).

Bound: `keys <= keys_max`, where a block on two nodes counts twice. When the index is full, a
node that has its fair share (`keys_max // nodes`) or more gets nothing new in, and a node
below it takes the place of the newest keys of the largest holding. So one node's flood of
reports can never push another below its share, and all that a node can get wrong is its own.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier, TierCounts

_INTERNED_SETS_MAX = 65_536
_SWEPT_KEYS = 256
"""Keys that make room at once, so that choosing whose is not done for every key."""


@dataclass(slots=True)
class _Holding:
    """What one node reported since its last snapshot began."""

    bit: int
    """The one bit that stands for this holding in holder sets."""

    tiers: dict[bytes, dict[bytes, Tier]] = field(default_factory=dict)
    """Namespace -> key -> tier; a namespace without keys is not kept."""

    counts: dict[bytes, Counter[Tier]] = field(default_factory=dict)
    """Namespace -> keys by tier."""

    keys: int = 0
    missing_keys: int = 0
    """Keys that were reported and are not here for lack of room; some may be gone by now."""


class PrefixIndex:
    """The blocks of all nodes. See the module."""

    def __init__(self, keys_max: int) -> None:
        self.keys_max = keys_max
        self._holdings: dict[NodeId, _Holding] = {}
        self._retired: list[_Holding] = []
        self._holders: dict[bytes, dict[bytes, int]] = {}
        self._interned: dict[int, int] = {}
        self._free_bits: list[int] = []
        self._bits = 0
        self._active = 0  # the bits of all holdings that are not retired
        self._keys = 0  # retired ones included

    @property
    def keys(self) -> int:
        """Blocks of all nodes; one that two nodes hold counts twice."""
        return self._keys - self.retired_keys

    @property
    def retired_keys(self) -> int:
        """Keys of nodes that were forgotten, which still take room until they are swept."""
        return sum(holding.keys for holding in self._retired)

    def keys_of(self, node_id: NodeId) -> int:
        """Blocks that a node is known to hold."""
        holding = self._holdings.get(node_id)
        return holding.keys if holding else 0

    def missing_keys_of(self, node_id: NodeId) -> int:
        """Keys that a node reported since its last snapshot, and that found or kept no room."""
        holding = self._holdings.get(node_id)
        return holding.missing_keys if holding else 0

    def add(self, node_id: NodeId, namespace_id: bytes, keys: Iterable[bytes], tier: Tier) -> None:
        """Note that blocks are now in `tier` of a node, wherever in it they were before."""
        holding = self._holdings.get(node_id) or self._open(node_id)
        tiers = holding.tiers.setdefault(namespace_id, {})
        counts = holding.counts.setdefault(namespace_id, Counter())
        for key in keys:
            before = tiers.get(key)
            if before is None:
                if not self._has_room(holding):
                    holding.missing_keys += 1
                    continue
                self._keys += 1
                holding.keys += 1
                # Making room may have emptied the namespace, so it is looked up anew.
                holders = self._holders.setdefault(namespace_id, {})
                holders[key] = self._intern(holders.get(key, 0) | holding.bit)
            else:
                counts[before] -= 1
            tiers[key] = tier
            counts[tier] += 1
        self._drop_if_empty(holding, namespace_id)

    def remove(self, node_id: NodeId, namespace_id: bytes, keys: Iterable[bytes]) -> None:
        """Note that a node holds blocks no more; what it was not known to hold is no matter."""
        holding = self._holdings.get(node_id)
        if holding is None or namespace_id not in holding.tiers:
            return
        tiers = holding.tiers[namespace_id]
        for key in keys:
            if key in tiers:
                self._unlink(holding, namespace_id, key, tiers.pop(key))
        self._drop_if_empty(holding, namespace_id)

    def forget(self, node_id: NodeId) -> None:
        """Forget a node at once. Its keys match nothing any more; `sweep` frees their memory."""
        holding = self._holdings.pop(node_id, None)
        if holding is None:
            return
        self._active &= ~holding.bit
        self._retired.append(holding)
        self.sweep(0)

    def sweep(self, keys: int) -> int:
        """Free the memory of up to `keys` keys of forgotten nodes; return how many are left."""
        self._close_swept()
        while self._retired and keys > 0:
            keys -= self._shrink(self._retired[-1], keys)
            self._close_swept()
        return self.retired_keys

    def prefixes(self, namespace_id: bytes, keys: PackedKeys) -> dict[NodeId, int]:
        """
        Return how many leading blocks each node holds; nodes that hold none are left out.

        Takes at most `log2(blocks)` probes for every length that occurs.
        """
        holders = self._holders.get(namespace_id)
        if not holders or not keys:
            return {}
        lengths = self._lengths(holders, keys)
        return {
            node_id: lengths[holding.bit]
            for node_id, holding in self._holdings.items()
            if holding.bit in lengths
        }

    def tiers(self, node_id: NodeId, namespace_id: bytes, keys: PackedKeys) -> TierCounts:
        """
        Count by tier the blocks of a prefix that a node holds.

        Args:
            node_id: The node.
            namespace_id: The namespace.
            keys: The prefix, cut to the length that `prefixes` gave. A block of it that the
                index has no tier for counts as SSD, the slowest.
        """
        holding = self._holdings.get(node_id)
        if holding is None or namespace_id not in holding.tiers:
            return TierCounts(ssd=len(keys))
        counts = holding.counts[namespace_id]
        only_tier = [tier for tier in Tier if counts[tier]]
        if len(only_tier) == 1:
            found: Counter[Tier | None] = Counter({only_tier[0]: len(keys)})
        else:
            found = Counter(map(holding.tiers[namespace_id].get, keys))
        return TierCounts(
            hbm=found[Tier.HBM], dram=found[Tier.DRAM], ssd=found[Tier.SSD] + found[None]
        )

    def _lengths(self, holders: Mapping[bytes, int], keys: PackedKeys) -> dict[int, int]:
        """Return bit -> leading blocks, for the active bits with at least one."""
        lengths: dict[int, int] = {}
        packed, width = keys.packed, keys.width  # sliced here: this loop is all of a lookup
        # (low, at_low, high, at_high): whoever is in at_low holds `low` leading blocks, whoever
        # is in at_high holds `high`, and at_high is a part of at_low (I2).
        ranges = [(0, self._active, len(keys) + 1, 0)]
        while ranges:
            low, at_low, high, at_high = ranges.pop()
            undecided = at_low & ~at_high
            if not undecided:
                continue
            if high - low > 1:
                middle = (low + high) // 2
                key = packed[(middle - 1) * width : middle * width]
                at_middle = holders.get(key, 0) & at_low | at_high
                ranges.append((low, at_low, middle, at_middle))
                ranges.append((middle, at_middle, high, at_high))
            elif low > 0:
                lengths.update(dict.fromkeys(_bits_of(undecided), low))
        return lengths

    def _open(self, node_id: NodeId) -> _Holding:
        if self._free_bits:
            bit = heappop(self._free_bits)
        else:
            bit = 1 << self._bits
            self._bits += 1
        self._active |= bit
        holding = self._holdings[node_id] = _Holding(bit)
        return holding

    def _has_room(self, holding: _Holding) -> bool:
        """Whether one more key fits, after making room for it where the holding may claim that."""
        if self._keys < self.keys_max:
            return True
        if self._retired:
            self.sweep(_SWEPT_KEYS)
            return True
        share = self.keys_max // len(self._holdings)
        if holding.keys >= share:
            return False
        # All holdings together are full and this one is below the average, so the largest is not.
        largest = max(self._holdings.values(), key=lambda other: (other.keys, other.bit))
        largest.missing_keys += self._shrink(largest, min(_SWEPT_KEYS, largest.keys - share))
        return True

    def _shrink(self, holding: _Holding, keys: int) -> int:
        """Take up to `keys` keys out of a holding, newest first; return how many."""
        taken = 0
        while taken < keys and holding.tiers:
            namespace_id, tiers = next(reversed(holding.tiers.items()))
            while taken < keys and tiers:
                self._unlink(holding, namespace_id, *tiers.popitem())
                taken += 1
            self._drop_if_empty(holding, namespace_id)
        return taken

    def _unlink(self, holding: _Holding, namespace_id: bytes, key: bytes, tier: Tier) -> None:
        """Account for a key that was taken out of `holding.tiers`."""
        holding.counts[namespace_id][tier] -= 1
        holding.keys -= 1
        self._keys -= 1
        holders = self._holders[namespace_id]
        others = holders[key] & ~holding.bit
        if others:
            holders[key] = self._intern(others)
            return
        del holders[key]
        if not holders:
            del self._holders[namespace_id]

    def _drop_if_empty(self, holding: _Holding, namespace_id: bytes) -> None:
        if not holding.tiers[namespace_id]:
            del holding.tiers[namespace_id], holding.counts[namespace_id]

    def _close_swept(self) -> None:
        """Let the bits of retired holdings that are empty stand for new ones."""
        while self._retired and not self._retired[-1].keys:
            heappush(self._free_bits, self._retired.pop().bit)

    def _intern(self, holders: int) -> int:
        # Interning only saves memory, so the table may be emptied at any time.
        if len(self._interned) >= _INTERNED_SETS_MAX:
            self._interned.clear()
        return self._interned.setdefault(holders, holders)


def _bits_of(holders: int) -> Iterator[int]:
    """The bits that are set, each as an integer."""
    while holders:
        bit = holders & -holders
        yield bit
        holders ^= bit
