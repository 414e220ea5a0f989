"""How much of what was asked for was found, by tier and by whatever path. Pure."""

from hearthkv.core.tier import Tier


class HitCounts:
    """Blocks since the start of the node."""

    def __init__(self) -> None:
        self._asked_blocks = 0
        self._found_blocks = dict.fromkeys(Tier, 0)

    def asked(self, blocks: int) -> None:
        """Count blocks that a caller asked for."""
        self._asked_blocks += blocks

    def found(self, tier: Tier, blocks: int = 1) -> None:
        """Count blocks that a caller was given, or shown."""
        self._found_blocks[tier] += blocks

    def ratios(self) -> dict[Tier, float]:
        """Blocks that were found by tier, as a share of those asked for."""
        asked = max(self._asked_blocks, 1)
        return {tier: blocks / asked for tier, blocks in self._found_blocks.items()}
