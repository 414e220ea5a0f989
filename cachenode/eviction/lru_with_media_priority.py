"""Least recently used first, and what comes to a medium is the last to leave it. Pure."""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from typing import Generic

from cachenode.eviction.protocol import Entry
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import TurnEnd


class LruWithMediaPriority(Generic[Entry]):
    """
    A list a tier, coldest first.

    Since no list knows of the others, the cost of a medium never competes with that of another:
    the coldest of DRAM move to the SSD, where they are the hottest, and only the coldest of the
    SSD leave the cache.
    """

    def __init__(self) -> None:
        self._lists: dict[Tier, OrderedDict[Entry, None]] = {tier: OrderedDict() for tier in Tier}
        self._homes: dict[Entry, OrderedDict[Entry, None]] = {}
        """The list that an entry is in."""

    def added(self, entry: Entry, tier: Tier) -> None:
        """Put an entry at the hot end of its tier's list."""
        self.removed(entry)
        home = self._homes[entry] = self._lists[tier]
        home[entry] = None

    def touched(self, prompt: Iterable[Entry]) -> None:
        """Put known entries at the hot end."""
        for entry in prompt:
            self.spared(entry)

    warmed = touched

    def spared(self, entry: Entry) -> None:
        """Put a known entry at the hot end."""
        home = self._homes.get(entry)
        if home is not None:
            home.move_to_end(entry)

    def hinted(self, prompt: Iterable[Entry], turn_end: TurnEnd, turn_count: int) -> None:
        """Take no hints."""

    def removed(self, entry: Entry) -> None:
        """Forget an entry."""
        home = self._homes.pop(entry, None)
        if home is not None:
            del home[entry]

    def victims(self, tier: Tier, count: int) -> list[Entry]:
        """Name the `count` coldest of a tier, coldest first."""
        return list(islice(self._lists[tier], count))

    def entry_count(self, tier: Tier) -> int:
        """Number of entries in a tier."""
        return len(self._lists[tier])
