"""How much the cache did for one client: counts since it was made. Pure."""

from collections import Counter
from dataclasses import dataclass, field

from hearthkv.client.outcome import Finished, Loaded, MissReason
from hearthkv.core.tier import Tier


@dataclass(slots=True)
class ClientStats:
    """Counts over all turns of a client. Read them, don't set them."""

    requests: int = 0
    """Turns begun."""

    prompt_tokens: int = 0
    cached_tokens: dict[Tier, int] = field(default_factory=lambda: dict.fromkeys(Tier, 0))
    """Prompt tokens whose KV was loaded, by the tier that it came from."""

    loaded_blocks: int = 0
    direct_blocks: int = 0
    """How many of them were read from the stores of a node on this host."""

    saved_blocks: int = 0
    direct_saved_blocks: int = 0
    """How many of them were written into the store of a node on this host."""

    refused_blocks: int = 0
    misses: Counter[MissReason] = field(default_factory=Counter)
    """How often a turn's start, a load or its saves ended early, by reason."""

    def count_turn(self, prompt_tokens: int, miss: MissReason | None) -> None:
        """Count a turn that begins."""
        self.requests += 1
        self.prompt_tokens += prompt_tokens
        self._count_miss(miss)

    def count_load(self, loaded: Loaded, block_size: int) -> None:
        """Count a load; a block that is loaded twice counts twice."""
        for tier in Tier:
            self.cached_tokens[tier] += loaded.by_tier.of(tier) * block_size
        self.loaded_blocks += loaded.blocks
        self.direct_blocks += loaded.direct_blocks
        self._count_miss(loaded.miss)

    def count_saves(self, before: Finished, now: Finished) -> None:
        """Count what a turn's account gained since it was counted before."""
        self.saved_blocks += now.saved_blocks - before.saved_blocks
        self.direct_saved_blocks += now.direct_blocks - before.direct_blocks
        self.refused_blocks += now.refused_blocks - before.refused_blocks
        if before.miss is None:
            self._count_miss(now.miss)

    @property
    def hit_ratio(self) -> float:
        """Prompt tokens loaded / prompt tokens; 0 before the first."""
        cached = sum(self.cached_tokens.values())
        return cached / self.prompt_tokens if self.prompt_tokens else 0.0

    def _count_miss(self, miss: MissReason | None) -> None:
        if miss is not None:
            self.misses[miss] += 1
