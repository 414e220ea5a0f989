"""Tiers, and counts of blocks or bytes by tier. Pure."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass


class Tier(enum.IntEnum):
    """Where a block lies, fastest first; the numbers are those of the contract."""

    HBM = 1
    DRAM = 2
    SSD = 3


@dataclass(frozen=True, slots=True)
class TierCounts:
    """Blocks by tier."""

    hbm: int = 0
    dram: int = 0
    ssd: int = 0

    @property
    def total(self) -> int:
        """Blocks in all tiers."""
        return self.hbm + self.dram + self.ssd

    def __add__(self, other: "TierCounts") -> "TierCounts":
        return TierCounts(self.hbm + other.hbm, self.dram + other.dram, self.ssd + other.ssd)

    def of(self, tier: Tier) -> int:
        """Blocks in one tier."""
        if tier is Tier.HBM:
            return self.hbm
        return self.dram if tier is Tier.DRAM else self.ssd

    @classmethod
    def count(cls, tiers: Iterable[Tier]) -> "TierCounts":
        """Count one block for each of `tiers`."""
        hbm = dram = ssd = 0
        for tier in tiers:
            hbm += tier is Tier.HBM
            dram += tier is Tier.DRAM
            ssd += tier is Tier.SSD
        return cls(hbm, dram, ssd)


@dataclass(frozen=True, slots=True)
class TierUsage:
    """
    Bytes and blocks of one tier of one node.

    Invariant: `used_bytes + reserved_bytes <= limit_bytes`.
    """

    tier: Tier
    used_bytes: int
    reserved_bytes: int
    limit_bytes: int
    blocks: int
    trouble: str = ""
    """Why the tier takes no blocks now; empty while it is well."""
