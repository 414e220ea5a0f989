"""The seam between the tiers and the policy that says who leaves one first. Pure."""

from collections.abc import Hashable, Iterable
from typing import Protocol, TypeVar

from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import TurnEnd

Entry = TypeVar("Entry", bound=Hashable)


class EvictionPolicy(Protocol[Entry]):
    """
    Ranks the entries of each tier.

    It only ranks: what may go at all (leaves, unpinned, idle) the caller decides, who tells the
    policy of every entry that comes, is used or goes. An entry that is not ranked is no matter to
    any call but `added`. The entries of a prompt are given from its last to its first: then of
    those that are equal otherwise the last leaves first, as it must.
    """

    def added(self, entry: Entry, tier: Tier) -> None:
        """Learn that an entry is in `tier` now: a new one, or one that came from another tier."""
        ...

    def touched(self, prompt: Iterable[Entry]) -> None:
        """Learn that a turn used these entries, and all of them at once."""
        ...

    def warmed(self, prompt: Iterable[Entry]) -> None:
        """Learn that these entries are as warm as if just used, though the use is counted already.

        So it is when a turn has written what it added to its prompt.
        """
        ...

    def spared(self, entry: Entry) -> None:
        """Learn that a victim could not go; now all others of its tier are named before it."""
        ...

    def hinted(self, prompt: Iterable[Entry], turn_end: TurnEnd, turn_count: int) -> None:
        """
        Learn how the session went on that alone needs these entries.

        Args:
            prompt: Without what other sessions share: nobody knows when those want it.
            turn_end: How its last turn ended.
            turn_count: Turns that the session, or the sub-agent, had so far.
        """
        ...

    def removed(self, entry: Entry) -> None:
        """Forget an entry."""
        ...

    def victims(self, tier: Tier, count: int) -> list[Entry]:
        """Name up to `count` entries of a tier, in the order in which they should leave it."""
        ...

    def entry_count(self, tier: Tier) -> int:
        """Number of entries in a tier."""
        ...
