"""New entries on probation in a small queue, proven ones in a main queue. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Generic

from cachenode.eviction.ghosts import Ghosts
from cachenode.eviction.protocol import Entry
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import TurnEnd

SMALL_SHARE = 0.1
"""Share of a tier above which the small queue is emptied before the main one."""

ROUNDS_MAX = 3
"""Rounds by which uses put off an entry of the main queue at most."""

RETURNS = 2
"""Spared entries that return to their queue with each entry that comes."""


@dataclass(slots=True, eq=False)
class _Queues(Generic[Entry]):
    """The entries of one tier, each in exactly one of three queues."""

    small: OrderedDict[Entry, None] = field(default_factory=OrderedDict)
    main: dict[int, OrderedDict[Entry, None]] = field(default_factory=dict)
    """By the round in which the hand comes to them; no round is empty."""

    spared: OrderedDict[Entry, None] = field(default_factory=OrderedDict)
    hand: int = 0
    """The round that the hand is in: that of the last entry that left `main` from its front."""

    small_weight: int = 0
    main_weight: int = 0


@dataclass(slots=True, eq=False)
class _Place:
    tier: Tier
    weight: int
    is_proven: bool
    """It was used again, or is back; then it is in the main queue, unless it is spared."""

    round: int | None = None
    """In the main queue; None in the others."""

    is_spared: bool = False


class S3Fifo(Generic[Entry]):
    """
    S3-FIFO, for entries of which only the last of a prompt may leave.

    What nobody uses a second time goes through the small queue, a tenth of the tier, and leaves
    without having cost a proven entry its place. It differs from the original where prompts make
    it: queues are in the order of last use, so that the end of a prompt leaves before its head; an
    entry is promoted when it is used, not when its turn comes; and uses put an entry off by whole
    rounds of the hand, which is the same as counting them down one a round.

    Args:
        identity_of: What an entry is recognised by when it comes back as another object.
        weight_of: Share of an entry in the size of a queue; the same at every call.
    """

    def __init__(
        self, identity_of: Callable[[Entry], Hashable], weight_of: Callable[[Entry], int]
    ) -> None:
        self._identity_of = identity_of
        self._weight_of = weight_of
        self._queues: dict[Tier, _Queues[Entry]] = {tier: _Queues() for tier in Tier}
        self._places: dict[Entry, _Place] = {}
        self._ghosts: Ghosts[bool] = Ghosts()
        """What left the small queue unproven."""

    def added(self, entry: Entry, tier: Tier) -> None:
        """Put an entry into the small queue, or the main one if it is proven or came back."""
        place = self._places.get(entry)
        if place is None:
            is_proven = self._ghosts.recall(self._identity_of(entry)) is not None
        else:
            is_proven = place.is_proven
            self._leave(entry, place)
        place = self._places[entry] = _Place(tier, self._weight_of(entry), is_proven)
        self._enter(entry, place)
        for returning in list(islice(self._queues[tier].spared, RETURNS)):
            self._leave(returning, self._places[returning])
            self._enter(returning, self._places[returning])

    def touched(self, prompt: Iterable[Entry]) -> None:
        """Promote entries of the small queue, and put off those of the main queue by a round."""
        for entry in prompt:
            place = self._places.get(entry)
            if place is not None:
                self._promote(entry, place)

    def warmed(self, prompt: Iterable[Entry]) -> None:
        """Put entries at the ends of their queues, or rounds."""
        for entry in prompt:
            place = self._places.get(entry)
            if place is not None:
                self._queue_of(place).move_to_end(entry)

    def spared(self, entry: Entry) -> None:
        """Set an entry aside, until some others have come."""
        place = self._places.get(entry)
        if place is not None:
            self._leave(entry, place)
            place.is_spared = True
            self._queues[place.tier].spared[entry] = None

    def hinted(self, prompt: Iterable[Entry], turn_end: TurnEnd, turn_count: int) -> None:
        """Take no hints."""

    def removed(self, entry: Entry) -> None:
        """Forget an entry, though not that it was here if it was not proven."""
        place = self._places.pop(entry, None)
        if place is not None:
            queues = self._queues[place.tier]
            if place.round is not None and place.round == min(queues.main):
                queues.hand = place.round
            if not place.is_proven:
                self._ghosts.remember(self._identity_of(entry), True, len(self._places))
            self._leave(entry, place)

    def victims(self, tier: Tier, count: int) -> list[Entry]:
        """Name the first of the small queue while it is too large, else of the main one."""
        return list(islice(self._in_order(self._queues[tier]), count))

    def entry_count(self, tier: Tier) -> int:
        """Number of entries in a tier."""
        queues = self._queues[tier]
        return len(queues.small) + len(queues.spared) + sum(map(len, queues.main.values()))

    def _in_order(self, queues: _Queues[Entry]) -> Iterator[Entry]:
        small = iter(queues.small)
        main = chain.from_iterable(queues.main[number] for number in sorted(queues.main))
        small_weight, main_weight = queues.small_weight, queues.main_weight
        while small_weight or main_weight:
            if small_weight > SMALL_SHARE * (small_weight + main_weight) or not main_weight:
                entry = next(small)
                small_weight -= self._places[entry].weight
            else:
                entry = next(main)
                main_weight -= self._places[entry].weight
            yield entry
        yield from queues.spared

    def _promote(self, entry: Entry, place: _Place) -> None:
        queues = self._queues[place.tier]
        number = queues.hand + 1
        if place.round is not None:
            number = min(place.round + 1, queues.hand + 1 + ROUNDS_MAX)
        self._leave(entry, place)
        place.is_proven = True
        self._enter_main(entry, place, number)

    def _enter(self, entry: Entry, place: _Place) -> None:
        """Put an entry that is in no queue into the one where it belongs."""
        queues = self._queues[place.tier]
        if place.is_proven:
            self._enter_main(entry, place, queues.hand + 1)
        else:
            queues.small[entry] = None
            queues.small_weight += place.weight

    def _enter_main(self, entry: Entry, place: _Place, number: int) -> None:
        queues = self._queues[place.tier]
        place.round = number
        queues.main.setdefault(number, OrderedDict())[entry] = None
        queues.main_weight += place.weight

    def _queue_of(self, place: _Place) -> OrderedDict[Entry, None]:
        queues = self._queues[place.tier]
        if place.round is not None:
            return queues.main[place.round]
        return queues.spared if place.is_spared else queues.small

    def _leave(self, entry: Entry, place: _Place) -> None:
        """Take an entry out of the queue that it is in."""
        queues = self._queues[place.tier]
        if place.is_spared:
            del queues.spared[entry]
            place.is_spared = False
        elif place.round is None:
            del queues.small[entry]
            queues.small_weight -= place.weight
        else:
            entries = queues.main[place.round]
            del entries[entry]
            if not entries:
                del queues.main[place.round]
            place.round = None
            queues.main_weight -= place.weight
