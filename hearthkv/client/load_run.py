"""One load under way: what is asked for, what counts so far, and why it ends. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from hearthkv.client.load_rates import SAMPLE_S_MIN, ReadPath, ReadSample
from hearthkv.client.outcome import Loaded, MissReason
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.pulls import PullQuery
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier, TierCounts

OnProgress = Callable[[int], None]
"""Told how many leading blocks are in place and verified, each time that there are more."""


@dataclass(frozen=True, slots=True)
class LoadQuery:
    """What is to be loaded, and where to."""

    spec: NamespaceSpec
    session_id: SessionId
    keys: PackedKeys
    """Keys of the blocks, at least one."""

    first_block: int
    """Where in the prompt they begin."""

    matched: TierCounts
    """Leading blocks of the prompt that the node is said to hold."""

    view: memoryview
    """Writable bytes, enough for all of the blocks."""

    limit_s: float
    """Seconds that the load may take."""

    on_progress: OnProgress | None = None
    pull: PullQuery | None = None
    """The part of the prompt that is held or arrives; None where nothing arrives."""

    @property
    def wants_arrivals(self) -> bool:
        """Whether any of the blocks was not held, and arrives."""
        if self.pull is None:
            return False
        end = min(self.first_block + len(self.keys), len(self.pull.keys))
        return end > max(self.first_block, self.matched.total)


class LoadRun:
    """
    The account of one load, over all the ways that its blocks come.

    Invariant: `0 <= blocks <= wanted <= len(query.keys)`.
    """

    def __init__(self, query: LoadQuery) -> None:
        self.query = query
        self.wanted = len(query.keys)
        """Blocks to bring."""
        self.miss: MissReason | None = None
        """Why it ends early; None where it goes on, or every wanted block came."""
        self._by_tier = {path: TierCounts() for path in ReadPath}
        self._told = 0

    @property
    def blocks(self) -> int:
        """Leading blocks that are in place and verified, as far as they were counted."""
        return sum(counts.total for counts in self._by_tier.values())

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be brought."""
        return self.miss is not None or self.blocks == self.wanted

    @property
    def loaded(self) -> Loaded:
        """The outcome. Where the gate left blocks out, that is why it ends."""
        direct, streamed = (self._by_tier[path] for path in ReadPath)
        miss = self.miss
        if miss is None and self.wanted < len(self.query.keys):
            miss = MissReason.RECOMPUTE
        return Loaded(
            blocks=self.blocks,
            tokens=self.blocks * self.query.spec.block_size,
            by_tier=direct + streamed,
            miss=miss,
            direct_blocks=direct.total,
        )

    def cut(self, wanted: int) -> None:
        """Bring no more than the leading `wanted` blocks."""
        self.wanted = wanted

    def tell(self, blocks: int) -> None:
        """Pass on how many leading blocks are in place and verified."""
        if blocks > self._told:
            self._told = blocks
            if self.query.on_progress is not None:
                self.query.on_progress(blocks)

    def count(
        self,
        path: ReadPath,
        by_tier: TierCounts,
        tier: Tier,
        *,
        latency_s: float,
        transfer_s: float,
    ) -> ReadSample:
        """
        Count the blocks that came by one path, and return what can be learned from it.

        Args:
            path: The path.
            by_tier: The blocks.
            tier: Where the first of them was to come from.
            latency_s: Seconds before bytes came.
            transfer_s: Seconds while they came.
        """
        self._by_tier[path] += by_tier
        size_bytes = {each: by_tier.of(each) * self.query.spec.block_bytes for each in Tier}
        if not by_tier.total and transfer_s >= SAMPLE_S_MIN:
            # Nothing in a long time: a block would have taken as long, or longer.
            size_bytes[tier] = self.query.spec.block_bytes
        return ReadSample(size_bytes, latency_s, transfer_s)
