"""First to leave is what promises the fewest hits for its place, as learnt from reuse. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from math import inf
from typing import Generic

from cachenode.eviction.ghosts import Ghosts
from cachenode.eviction.protocol import Entry
from cachenode.eviction.reuse_odds import STEPS, ReuseOdds, start_of, step_of
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import TurnEnd

USES_KINDS = 5
"""Used once, twice, up to 4 times, up to 8 times, and more often."""

TURN_ENDS = tuple(TurnEnd)
KIND_COUNT = USES_KINDS * len(TURN_ENDS)
FINAL_KINDS = range(KIND_COUNT - USES_KINDS, KIND_COUNT)
"""The kinds of sessions that ended. What others share of them may still be used."""

ASIDE = (KIND_COUNT, 0)
"""The list of spared entries, whatever their kind and age: it is named last."""

GHOSTS_PER_ENTRY = 4
LESSON_SHARE = 0.25
"""What is used between two lessons, as a share of what is ranked."""

LESSON_WEIGHT_MIN = 1024
LESSON_WEIGHT_ENOUGH = 65_536
"""Less is used between two lessons only at the beginning. A lesson takes some milliseconds."""


@dataclass(slots=True, eq=False)
class _Known:
    """What is known of an entry, and for a while after it has left."""

    tier: Tier
    weight: int
    used_at: int
    use_count: int = 1
    turn_count: int = 0
    """Turns of the session that used it last, as hinted, or as seen by its prompt."""

    kind: int = 0
    place: tuple[int, int] = (0, 0)
    """Kind and step of the list that it is in, or ASIDE."""

    back_at: int = 0
    """When it returns from there."""


class HitDensity(Generic[Entry]):
    """
    Keeps what is likely to be used again soon, by kind and age.

    Least recently used first is right where nothing else is known and a long silence is a bad
    sign. It fails where the cache turns over faster than sessions return, for then it drops each
    just before its next turn; and it holds what is used once as long as what always returns. So
    the policy learns how soon entries return that were used as often, whose session had as many
    turns, and whose last turn ended alike; and it keeps those that give most hits for the time that
    they must be kept. Sessions that ended are among those kinds: they leave first, but for what
    proves to be used by others.

    Entries of a kind and step of age are a list, oldest first, and lists are ranked as a whole.

    Args:
        identity_of: What an entry is recognised by when it comes back as another object.
        weight_of: Share of an entry in the size of the cache; the same at every call.
    """

    def __init__(
        self, identity_of: Callable[[Entry], Hashable], weight_of: Callable[[Entry], int]
    ) -> None:
        self._identity_of = identity_of
        self._weight_of = weight_of
        self._known: dict[Entry, _Known] = {}
        self._lists: dict[Tier, dict[tuple[int, int], OrderedDict[Entry, None]]] = {
            tier: {} for tier in Tier
        }
        self._counts = dict.fromkeys(Tier, 0)
        self._aged_at = dict.fromkeys(Tier, 0)
        self._ghosts: Ghosts[_Known] = Ghosts()
        self._odds = ReuseOdds(KIND_COUNT, hopeless=FINAL_KINDS)
        self._used_weight = 0
        """All weight used so far: the clock by which ages are told."""

        self._ranked_weight = 0
        self._lesson_at = LESSON_WEIGHT_MIN

    def added(self, entry: Entry, tier: Tier) -> None:
        """Rank an entry. One that moved down keeps its age; one that was lifted is expected."""
        known = self._known.get(entry)
        if known is not None:
            self._unlist(entry, known)
            if tier < known.tier:
                known.used_at = self._used_weight
            known.tier = tier
            self._list(entry, known)
            return
        known = self._ghosts.recall(self._identity_of(entry))
        if known is None:
            weight = self._weight_of(entry)
            self._pass_time(weight)
            known = _Known(tier, weight, self._used_weight)
            self._begin(known, TurnEnd.UNKNOWN)
        else:
            known.tier = tier
            self._pass_time(known.weight)
            self._reuse(known)
        self._known[entry] = known
        self._ranked_weight += known.weight
        self._list(entry, known)

    def touched(self, prompt: Iterable[Entry]) -> None:
        """Count a use of each, and learn from it."""
        used = self._ranked(prompt)
        self._pass_time(sum(known.weight for _, known in used))
        for entry, known in used:
            self._unlist(entry, known)
            self._reuse(known)
            self._list(entry, known)

    def warmed(self, prompt: Iterable[Entry]) -> None:
        """Let the ages of these entries begin anew."""
        warm = self._ranked(prompt)
        # Each turn of a session adds an end to its prompt, which is used once less than the rest.
        turn_count = len({known.use_count for _, known in warm})
        for entry, known in warm:
            known.used_at = self._used_weight
            if turn_count > known.turn_count:
                self._odds.withdrawn(known.kind, known.weight)
                known.turn_count = turn_count
                self._begin(known, TURN_ENDS[known.kind // USES_KINDS])
            if known.place == (known.kind, 0):
                self._lists[known.tier][known.place].move_to_end(entry)
            else:
                self._unlist(entry, known)
                self._list(entry, known)

    def spared(self, entry: Entry) -> None:
        """Set an entry aside until it is a step older."""
        known = self._known.get(entry)
        if known is not None:
            self._unlist(entry, known)
            step = step_of(self._used_weight - known.used_at)
            known.back_at = known.used_at + start_of(step + 1)
            self._put(entry, known, ASIDE)

    def hinted(self, prompt: Iterable[Entry], turn_end: TurnEnd, turn_count: int) -> None:
        """Rank entries among those whose sessions are as far, and paused alike."""
        for entry, known in self._ranked(prompt):
            self._unlist(entry, known)
            self._odds.withdrawn(known.kind, known.weight)
            known.turn_count = turn_count
            self._begin(known, turn_end)
            self._list(entry, known)

    def removed(self, entry: Entry) -> None:
        """Forget an entry, though not at once what was known of it."""
        known = self._known.pop(entry, None)
        if known is not None:
            self._unlist(entry, known)
            self._ranked_weight -= known.weight
            count_max = GHOSTS_PER_ENTRY * (len(self._known) + 1)
            self._ghosts.remember(self._identity_of(entry), known, count_max)

    def victims(self, tier: Tier, count: int) -> list[Entry]:
        """Name the entries of the lowest hit density, the oldest of a list first."""
        self._age(tier)
        return list(islice(self._in_order(self._lists[tier]), count))

    def entry_count(self, tier: Tier) -> int:
        """Number of entries in a tier."""
        return self._counts[tier]

    def _ranked(self, prompt: Iterable[Entry]) -> list[tuple[Entry, _Known]]:
        return [(entry, self._known[entry]) for entry in prompt if entry in self._known]

    def _pass_time(self, weight: int) -> None:
        self._used_weight += weight
        if self._used_weight >= self._lesson_at:
            self._odds.learn()
            enough = min(self._used_weight // 2, LESSON_WEIGHT_ENOUGH)
            self._lesson_at += max(int(LESSON_SHARE * self._ranked_weight), enough)

    def _reuse(self, known: _Known) -> None:
        self._odds.reused(known.kind, self._used_weight - known.used_at, known.weight)
        known.use_count += 1
        known.used_at = self._used_weight
        self._begin(known, TurnEnd.UNKNOWN)

    def _begin(self, known: _Known, turn_end: TurnEnd) -> None:
        # 1, 2, 3-4, 5-8, more
        uses = (max(known.use_count, known.turn_count) - 1).bit_length()
        known.kind = USES_KINDS * TURN_ENDS.index(turn_end) + min(uses, USES_KINDS - 1)
        self._odds.began(known.kind, known.weight)

    def _list(self, entry: Entry, known: _Known) -> None:
        self._put(entry, known, (known.kind, step_of(self._used_weight - known.used_at)))

    def _put(self, entry: Entry, known: _Known, place: tuple[int, int]) -> None:
        known.place = place
        self._lists[known.tier].setdefault(place, OrderedDict())[entry] = None
        self._counts[known.tier] += 1

    def _unlist(self, entry: Entry, known: _Known) -> None:
        lists = self._lists[known.tier]
        del lists[known.place][entry]
        if not lists[known.place]:
            del lists[known.place]
        self._counts[known.tier] -= 1

    def _age(self, tier: Tier) -> None:
        """Move entries that have come of a higher step to the list of that."""
        if self._aged_at[tier] == self._used_weight:
            return
        self._aged_at[tier] = self._used_weight
        # The highest steps first, so that none is met twice.
        for place in sorted(self._lists[tier], key=lambda place: -place[1]):
            for entry in list(self._outgrown(place, self._lists[tier][place])):
                known = self._known[entry]
                self._unlist(entry, known)
                self._list(entry, known)

    def _outgrown(self, place: tuple[int, int], entries: Iterable[Entry]) -> Iterator[Entry]:
        """The first entries of a list, as far as they belong to another now."""
        now, step = self._used_weight, place[1]
        if place == ASIDE:
            return takewhile(lambda entry: self._known[entry].back_at <= now, entries)
        # The last step has no end.
        used_before = now - start_of(step + 1) if step < STEPS - 1 else -1
        return takewhile(lambda entry: self._known[entry].used_at <= used_before, entries)

    def _in_order(self, lists: dict[tuple[int, int], OrderedDict[Entry, None]]) -> Iterator[Entry]:
        for place in sorted(lists, key=self._rank):
            yield from lists[place]

    def _rank(self, place: tuple[int, int]) -> tuple[float, bool, int]:
        """Order lists by worth. Where that is equal, sessions that ended leave first, or age."""
        kind, step = place
        worth = inf if place == ASIDE else self._odds.density(kind, step)
        return worth, kind not in FINAL_KINDS, -step
