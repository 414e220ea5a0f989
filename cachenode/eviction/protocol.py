"""The seam between the tiers and the policy that says who leaves one first. Pure."""

from collections.abc import Hashable
from typing import Protocol, TypeVar

from hearthkv.core.tier import Tier

Entry = TypeVar("Entry", bound=Hashable)


class EvictionPolicy(Protocol[Entry]):
    """
    Ranks the entries of each tier.

    It only ranks: what may go at all (leaves, unpinned, idle) the caller decides, who tells the
    policy of every entry that comes, is used or goes.
    """

    def added(self, entry: Entry, tier: Tier) -> None:
        """Learn that an entry is in `tier` now: a new one, or one that came from another tier."""
        ...

    def touched(self, entry: Entry) -> None:
        """Learn that an entry was used. An unknown one is no matter."""
        ...

    def removed(self, entry: Entry) -> None:
        """Forget an entry. An unknown one is no matter."""
        ...

    def victims(self, tier: Tier, count: int) -> list[Entry]:
        """Name up to `count` entries of a tier, in the order in which they should leave it."""
        ...

    def entry_count(self, tier: Tier) -> int:
        """Number of entries in a tier."""
        ...
