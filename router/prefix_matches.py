"""
How much of one prompt each node holds. Pure.

Nodes are bits here, and those that hold equally much are one group, so that what a search found
costs as little for a thousand nodes as for four. Only who asks for all nodes pays for all.
"""

from bisect import insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hearthkv.core.session_id import NodeId
from router.holder_states import bits_of

FIRST_ONES = 8
"""Nodes of a group that a decision looks at."""


class NodeBits:
    """Which bit stands for which node."""

    def __init__(self) -> None:
        self.bits: dict[NodeId, int] = {}
        self.mask = 0
        """All of the bits."""

        self._node_ids: dict[int, NodeId] = {}
        self._by_name: list[NodeId] = []

    def __len__(self) -> int:
        return len(self.bits)

    def name(self, bit: int, node_id: NodeId) -> None:
        """Let a bit stand for a node, which must have none."""
        self.bits[node_id] = bit
        self._node_ids[bit] = node_id
        self.mask |= bit
        insort(self._by_name, node_id)

    def forget(self, node_id: NodeId) -> int:
        """Let a node have no bit any more; return the one that it had, 0 if it had none."""
        bit = self.bits.pop(node_id, 0)
        if bit:
            del self._node_ids[bit]
            self.mask &= ~bit
            self._by_name.remove(node_id)
        return bit

    def nodes_of(self, mask: int) -> Iterator[NodeId]:
        """Return the nodes of some of the bits, by name."""
        few = mask.bit_count()
        if few == 1:
            return iter((self._node_ids[mask],))
        # Whoever wants the first ones of many need not have them all sorted.
        if few * few <= FIRST_ONES * len(self):
            return iter(sorted(map(self._node_ids.__getitem__, bits_of(mask))))
        return (node_id for node_id in self._by_name if self.bits[node_id] & mask)


@dataclass(frozen=True, slots=True)
class PrefixGroup:
    """Nodes that hold equally much of a prompt."""

    blocks: int
    mask: int
    bits: NodeBits

    @property
    def nodes(self) -> Iterator[NodeId]:
        """They, by name."""
        return self.bits.nodes_of(self.mask)

    def __len__(self) -> int:
        return self.mask.bit_count()


class PrefixMatches(Mapping[NodeId, int]):
    """
    Node -> leading blocks, longest first, then by name; nodes that hold none are left out.

    Good for as long as the index is not changed. Groups are searched when they are asked for, so
    the first nodes cost as little among a thousand as among four, and shorter prefixes nothing
    where only the longest matters.

    Args:
        bits: Which bit is whose.
        search: Finds the groups, longest first.
    """

    def __init__(self, bits: NodeBits, search: Iterator[PrefixGroup]) -> None:
        self._bits = bits
        self._search = search
        self._found: list[PrefixGroup] = []

    @property
    def groups(self) -> Iterator[PrefixGroup]:
        """The groups, longest first."""
        index = 0
        while index < len(self._found) or self._finds_more():
            yield self._found[index]
            index += 1

    def __getitem__(self, node_id: NodeId) -> int:
        blocks = self.get(node_id)
        if not blocks:
            raise KeyError(node_id)
        return blocks

    # Narrower than that of mappings at large, and without an exception for every node that
    # holds nothing.
    def get(self, node_id: NodeId, default: int = 0) -> int:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return a node's leading blocks; `default` where it holds none."""
        bit = self._bits.bits.get(node_id, 0)
        for group in self._found:
            if group.mask & bit:
                return group.blocks
        while bit and self._finds_more():
            group = self._found[-1]
            if group.mask & bit:
                return group.blocks
        return default

    def __iter__(self) -> Iterator[NodeId]:
        for group in self.groups:
            yield from group.nodes

    def __len__(self) -> int:
        return sum(map(len, self.groups))

    def _finds_more(self) -> bool:
        group = next(self._search, None)
        if group is None:
            return False
        self._found.append(group)
        return True
