"""Blocks of a prefix that arrive in any order, of which the leading run counts. Pure."""

from collections.abc import Sequence

from hearthkv.core.tier import Tier, TierCounts


class DirectPrefix:
    """
    What has arrived of a prefix.

    Invariant: `0 <= blocks <= end <= len(tiers)`; both go one way, until they meet.

    Args:
        tiers: Where each block comes from.
    """

    def __init__(self, tiers: Sequence[Tier]) -> None:
        self.blocks = 0
        """Leading blocks that are in place and verified."""
        self.end = len(tiers)
        """The first block that does not come; nothing behind it is of use."""
        self._tiers = tiers
        self._ahead: set[int] = set()
        """Blocks that arrived before one in front of them."""

    @property
    def is_over(self) -> bool:
        """Whether nothing that could still arrive would count."""
        return self.blocks == self.end

    @property
    def is_complete(self) -> bool:
        """Whether all blocks are in place."""
        return self.blocks == len(self._tiers)

    @property
    def by_tier(self) -> TierCounts:
        """The blocks that count, by the tier that they came from."""
        return TierCounts.count(self._tiers[: self.blocks])

    def arrived(self, block: int) -> None:
        """Take note that a block is in place and verified."""
        self._ahead.add(block)
        while self.blocks in self._ahead and self.blocks < self.end:
            self._ahead.remove(self.blocks)
            self.blocks += 1

    def failed(self, block: int) -> None:
        """Take note that a block does not come."""
        self.end = max(self.blocks, min(self.end, block))
