"""Least recently used first, whatever medium an entry came from. Pure."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush, merge
from itertools import islice
from typing import Generic

from cachenode.eviction.protocol import Entry
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import TurnEnd


@dataclass(slots=True)
class _Ranks(Generic[Entry]):
    """The entries of one tier by the numbers of their last uses."""

    used_here: OrderedDict[int, Entry] = field(default_factory=OrderedDict)
    """In the order of the numbers, since a use gives the highest yet."""

    used_elsewhere: dict[int, Entry] = field(default_factory=dict)
    """Those that came from another tier, and were not used since."""

    arrivals: list[int] = field(default_factory=list)
    """A heap of the numbers in `used_elsewhere`, and of some that left it."""

    def remove(self, use: int) -> None:
        if self.used_here.pop(use, None) is None:
            del self.used_elsewhere[use]

    def first_elsewhere(self, count: int) -> list[int]:
        """The lowest numbers of those that came from another tier."""
        first: list[int] = []
        while self.arrivals and len(first) < count:
            use = heappop(self.arrivals)
            if use in self.used_elsewhere and use not in first[-1:]:
                first.append(use)
        for use in first:
            heappush(self.arrivals, use)
        return first


class Lru(Generic[Entry]):
    """
    One order of last use for all media.

    A block that moves to the SSD keeps its place in that order, and so may leave the cache before
    one that was there all the time and was used later.
    """

    def __init__(self) -> None:
        self._ranks: dict[Tier, _Ranks[Entry]] = {tier: _Ranks() for tier in Tier}
        self._places: dict[Entry, tuple[Tier, int]] = {}
        """Tier of an entry, and the number of its last use."""
        self._use_count = 0

    def added(self, entry: Entry, tier: Tier) -> None:
        """Rank a new entry as used last; leave one that comes from another tier its rank."""
        place = self._places.get(entry)
        if place is None:
            self._use(entry, tier)
        elif place[0] is not tier:
            use = place[1]
            self._ranks[place[0]].remove(use)
            self._ranks[tier].used_elsewhere[use] = entry
            heappush(self._ranks[tier].arrivals, use)
            self._places[entry] = tier, use

    def touched(self, prompt: Iterable[Entry]) -> None:
        """Rank known entries as used last."""
        for entry in prompt:
            self.spared(entry)

    warmed = touched

    def spared(self, entry: Entry) -> None:
        """Rank a known entry as used last."""
        place = self._places.get(entry)
        if place is not None:
            self._ranks[place[0]].remove(place[1])
            self._use(entry, place[0])

    def hinted(self, prompt: Iterable[Entry], turn_end: TurnEnd, turn_count: int) -> None:
        """Take no hints."""

    def removed(self, entry: Entry) -> None:
        """Forget an entry."""
        place = self._places.pop(entry, None)
        if place is not None:
            self._ranks[place[0]].remove(place[1])

    def victims(self, tier: Tier, count: int) -> list[Entry]:
        """Name the `count` entries of a tier whose last use is longest ago, that one first."""
        ranks = self._ranks[tier]
        uses = merge(islice(ranks.used_here, count), ranks.first_elsewhere(count))
        return [
            ranks.used_here[use] if use in ranks.used_here else ranks.used_elsewhere[use]
            for use in islice(uses, count)
        ]

    def entry_count(self, tier: Tier) -> int:
        """Number of entries in a tier."""
        return len(self._ranks[tier].used_here) + len(self._ranks[tier].used_elsewhere)

    def _use(self, entry: Entry, tier: Tier) -> None:
        self._use_count += 1
        self._ranks[tier].used_here[self._use_count] = entry
        self._places[entry] = tier, self._use_count
