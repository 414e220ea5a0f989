"""Reads that are planned and not yet finished. Pure."""

from itertools import takewhile

from cachenode.block import Block, Copy
from cachenode.holdings import Holdings
from cachenode.plans import ReadPlan
from hearthkv.core.block_io import ReadEnd
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier, TierCounts


class Reads:
    """
    Plans reads of prefixes, and keeps what they read from erasure.

    A block that is dropped while it is read is gone for everybody else at once; its bytes stay
    until the last reader is done.
    """

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._open: dict[ReadPlan, tuple[list[Block], list[Copy]]] = {}

    def match(self, namespace_id: bytes, keys: PackedKeys) -> TierCounts:
        """Count the leading blocks that a read would give now, by tier."""
        length = self._holdings.tree.prefix_length(namespace_id, keys)
        run = self._readable(namespace_id, keys.slice(0, length))
        dram = [block.copy.ref.tier for block in run].count(Tier.DRAM)
        return TierCounts(dram=dram, ssd=len(run) - dram)

    def plan(self, namespace_id: bytes, keys: PackedKeys, session_id: SessionId | None) -> ReadPlan:
        """Plan a read of the longest run of held blocks, and keep their copies."""
        blocks = self._readable(namespace_id, keys)
        copies = [block.copy for block in blocks]
        plan = ReadPlan(
            tuple([copy.ref for copy in copies]), self._end(namespace_id, keys, len(blocks))
        )
        self._open[plan] = (blocks, copies)
        self._holdings.hold(copies)
        if blocks and session_id is not None:
            self._holdings.tails.note(session_id, blocks[-1])
        return plan

    def finish(self, plan: ReadPlan) -> None:
        """End a read, and heat what it read."""
        blocks, copies = self._open.pop(plan)
        self._holdings.let_go(copies)
        last = next((block for block in reversed(blocks) if block.is_held), None)
        if last is not None:
            self._holdings.heat(last)

    def _readable(self, namespace_id: bytes, keys: PackedKeys) -> list[Block]:
        """The leading held blocks, up to the first whose tier is in trouble."""
        shelves = self._holdings.shelves
        run = self._holdings.tree.prefix(namespace_id, keys)
        if any(shelf.trouble for shelf in shelves.values()):
            return list(takewhile(lambda block: not shelves[block.tier].trouble, run))
        return run

    def _end(self, namespace_id: bytes, keys: PackedKeys, length: int) -> ReadEnd:
        if length == len(keys):
            return ReadEnd.COMPLETE
        is_held = self._holdings.tree.find(namespace_id, keys[length]) is not None
        return ReadEnd.UNAVAILABLE if is_held else ReadEnd.MISS
