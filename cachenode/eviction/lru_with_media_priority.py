"""Least recently used first, with a list of its own for each medium. Pure."""

from collections import OrderedDict
from itertools import islice
from typing import Generic

from cachenode.eviction.protocol import Entry
from hearthkv.core.tier import Tier


class LruWithMediaPriority(Generic[Entry]):
    """
    A list a tier, coldest first.

    Since no list knows of the others, the cost of a medium never competes with that of another:
    the coldest of DRAM move to the SSD, and only the coldest of the SSD leave the cache.
    """

    def __init__(self) -> None:
        self._lists: dict[Tier, OrderedDict[Entry, None]] = {tier: OrderedDict() for tier in Tier}
        self._tiers: dict[Entry, Tier] = {}

    def added(self, entry: Entry, tier: Tier) -> None:
        """Put an entry at the hot end of its tier's list."""
        self.removed(entry)
        self._tiers[entry] = tier
        self._lists[tier][entry] = None

    def touched(self, entry: Entry) -> None:
        """Put a known entry at the hot end."""
        tier = self._tiers.get(entry)
        if tier is not None:
            self._lists[tier].move_to_end(entry)

    def removed(self, entry: Entry) -> None:
        """Forget an entry."""
        tier = self._tiers.pop(entry, None)
        if tier is not None:
            del self._lists[tier][entry]

    def victims(self, tier: Tier, count: int) -> list[Entry]:
        """Name the `count` coldest of a tier, coldest first."""
        return list(islice(self._lists[tier], count))

    def entry_count(self, tier: Tier) -> int:
        """Number of entries in a tier."""
        return len(self._lists[tier])
