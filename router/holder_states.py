"""
Numbers for what is known of a block: which holdings have it, and in which tier. Pure.

Most blocks share their state with others, so each state is kept once, and a block costs the four
bytes of its state's number. A state is two integers with a bit for each holding; together the
two bits tell the tier, as `Tier` counts it. State 0 is that of a block that nobody holds.
"""

from collections.abc import Iterable, Iterator

from hearthkv.core.tier import Tier

NOBODY = 0

_TIERS: tuple[Tier | None, ...] = (None, *Tier)
"""By the two bits of a holding, as a number."""


class HolderStates:
    """
    The states in use.

    Whoever writes a state's number down says so in `uses`, and calls `release` in the end.
    """

    def __init__(self) -> None:
        self.held = [0]
        """By state: the bits of the holdings that have the block, in whatever tier."""

        self.uses = [0]
        """By state: how many blocks are in it. The caller's to count."""

        self._planes = [(0, 0)]
        self._numbers = {(0, 0): NOBODY}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def with_tier(self, state: int, bit: int, tier: Tier) -> int:
        """Return the state in which the holding has the block in `tier`."""
        low, high = self._planes[state]
        low, high = low & ~bit, high & ~bit
        return self._number(low | bit * (tier & 1), high | bit * (tier >> 1))

    def without(self, state: int, bits: int) -> int:
        """Return the state in which none of the holdings has the block."""
        low, high = self._planes[state]
        return self._number(low & ~bits, high & ~bits)

    def tier_of(self, state: int, bit: int) -> Tier | None:
        """Return the tier in which a holding has the block; None if it has it not."""
        low, high = self._planes[state]
        return _TIERS[(1 if low & bit else 0) + (2 if high & bit else 0)]

    def release(self, states: Iterable[int]) -> None:
        """Forget those of the states that are not in use any more."""
        for state in states:
            if state and not self.uses[state] and self.held[state]:
                del self._numbers[self._planes[state]]
                self._planes[state] = (0, 0)
                self.held[state] = 0
                self._free.append(state)

    def _number(self, low: int, high: int) -> int:
        state = self._numbers.get((low, high))
        if state is None:
            state = self._free.pop() if self._free else self._grow()
            self._planes[state] = planes = (low, high)
            self._numbers[planes] = state
            self.held[state] = low | high
        return state

    def _grow(self) -> int:
        self.held.append(0)
        self.uses.append(0)
        self._planes.append((0, 0))
        return len(self.held) - 1


def bits_of(mask: int) -> Iterator[int]:
    """Return the bits that are set, each as an integer, the lowest first."""
    while mask:
        bit = mask & -mask
        yield bit
        mask ^= bit
