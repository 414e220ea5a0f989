"""The `[kv_cache]` section that engines and nodes share. Pure."""

import math
from dataclasses import dataclass

from hearthkv.core.errors import SettingsError
from hearthkv.core.namespace import BLOCK_SIZE_MAX
from hearthkv.core.tier import Tier

EVICTION_POLICIES = ("lru_with_media_priority", "lru", "s3fifo", "hit_density")

GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCacheSettings:
    """
    How large a node's cache is and how it is split.

    Raises:
        SettingsError: If a value is impossible; the text names field, value and what is allowed.
    """

    block_size: int = 16
    """Tokens in a block of the reference engine. A node takes namespaces of any block size."""

    cache_capacity_gb: float = 40.0
    """Bytes of all three tiers together, in GiB."""

    offload_threshold: float = 0.85
    """Fill of a tier, in (0, 1], above which its coldest blocks move down. Nearer to 1 means
    fewer moves, and less slack for a burst of writes."""

    eviction_policy: str = "lru_with_media_priority"
    """Who leaves a tier first: `lru_with_media_priority`, `lru`, `s3fifo`, or `hit_density` where a
    node holds less than a tenth of what its sessions use."""

    hbm_ratio: float = 0.25
    """Share of the engine's own block pool."""

    dram_ratio: float = 0.55
    """Share of Redis."""

    ssd_ratio: float = 0.20
    """Share of the SSD files. The three ratios sum to 1."""

    prefetch_enabled: bool = True
    """Lift blocks from SSD to DRAM ahead of the turn that needs them."""

    parallel_read: bool = True
    """Read DRAM and SSD, and several blocks of each, at once."""

    def __post_init__(self) -> None:
        if not 1 <= self.block_size <= BLOCK_SIZE_MAX:
            raise SettingsError(f"block_size is {self.block_size}, must be in 1..{BLOCK_SIZE_MAX}")
        if not 0 < self.cache_capacity_gb < math.inf:
            raise SettingsError(
                f"cache_capacity_gb is {self.cache_capacity_gb}, must be over 0 and finite"
            )
        if not 0 < self.offload_threshold <= 1:
            raise SettingsError(f"offload_threshold is {self.offload_threshold}, must be in (0, 1]")
        if self.eviction_policy not in EVICTION_POLICIES:
            raise SettingsError(
                f"eviction_policy is {self.eviction_policy!r}, "
                f"must be one of {', '.join(EVICTION_POLICIES)}"
            )
        self._check_ratios()

    def _check_ratios(self) -> None:
        for name in ("hbm_ratio", "dram_ratio", "ssd_ratio"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise SettingsError(f"{name} is {value}, must be in [0, 1]")
        total = self.hbm_ratio + self.dram_ratio + self.ssd_ratio
        if not math.isclose(total, 1.0, abs_tol=1e-6):
            raise SettingsError(
                f"hbm_ratio + dram_ratio + ssd_ratio is {total:g} "
                f"({self.hbm_ratio:g} + {self.dram_ratio:g} + {self.ssd_ratio:g}), must be 1"
            )

    def limit_bytes(self, tier: Tier) -> int:
        """Bytes that a tier may hold."""
        ratio = {
            Tier.HBM: self.hbm_ratio,
            Tier.DRAM: self.dram_ratio,
            Tier.SSD: self.ssd_ratio,
        }[tier]
        return int(self.cache_capacity_gb * ratio * GIB)
