"""When blocks move between tiers, and which leave the cache. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from cachenode.block import Block, Copy, CopyState
from cachenode.holdings import Holdings
from cachenode.plans import Demotions, Move
from cachenode.shelf import Shelf
from hearthkv.core.tier import Tier

VICTIMS_BATCH = 64
VICTIMS_MAX = 65_536
EVICTIONS_MAX = 1024
"""Blocks that one plan evicts from a tier at most, so that none holds up the process for long."""


@dataclass(eq=False, slots=True)
class _MoveUnderWay:
    block: Block
    source: Copy
    target: Copy


class Tiering:
    """
    Keeps the tiers below their thresholds.

    Above its threshold, or where a copy was refused for want of room, DRAM moves its coldest
    blocks to the SSD, and the SSD drops its coldest leaves. DRAM drops leaves only where the
    SSD takes nothing, now or soon. What is on its way out counts as gone here, though not for
    the limit, so that no plan throws out more than it must.
    """

    def __init__(self, holdings: Holdings, offload_threshold: float) -> None:
        self._holdings = holdings
        self._dram = holdings.shelves[Tier.DRAM]
        self._ssd = holdings.shelves[Tier.SSD]
        self._threshold = offload_threshold
        self._moves: dict[Move, _MoveUnderWay] = {}

    def ceiling_bytes(self, tier: Tier) -> int:
        """Bytes above which a tier is emptied."""
        return int(self._holdings.shelves[tier].limits.limit_bytes * self._threshold)

    def plan_demotions(self, moves_max: int) -> Demotions:
        """Plan a bounded batch of moves and evictions; empty while both tiers are below."""
        evicted = self._empty_ssd()
        moves, dropped = self._empty_dram(moves_max)
        return Demotions(tuple(moves), evicted + dropped)

    def plan_move(self, block: Block, tier: Tier) -> Move | None:
        """Plan the move of a block that is not moving to `tier`; None if there is no room."""
        assert not block.is_moving
        source = block.copy
        target = self._holdings.reserve(
            tier,
            namespace_id=source.ref.namespace_id,
            key=source.ref.key,
            parent_key=source.ref.parent_key,
            checksum=source.ref.checksum,
            size_bytes=source.ref.size_bytes,
        )
        if target is None:
            return None
        move = Move(source.ref, target.ref)
        self._moves[move] = _MoveUnderWay(block, source, target)
        self._holdings.shelf_of(source).hold(source)
        block.is_moving = True
        return move

    def commit_move(self, move: Move) -> bool:
        """
        Let the target stand for the block; the target's bytes are stored.

        Returns:
            False where the block went meanwhile, or the target's store was emptied: then the
            target is erased.
        """
        under_way = self._end(move)
        if not under_way.block.is_held or under_way.target.is_void:
            self._holdings.condemn(under_way.target)
            return False
        self._holdings.shelf_of(under_way.target).settle(under_way.target)
        self._holdings.relocate(under_way.block, under_way.target)
        return True

    def abort_move(self, move: Move) -> None:
        """Leave the block where it is; the target is erased, for its bytes may be there."""
        self._holdings.condemn(self._end(move).target)

    def _end(self, move: Move) -> _MoveUnderWay:
        under_way = self._moves.pop(move)
        self._holdings.shelf_of(under_way.source).let_go(under_way.source)
        under_way.block.is_moving = False
        return under_way

    def _empty_ssd(self) -> int:
        if self._ssd.trouble:
            return 0
        evicted = self._evict(Tier.SSD, self._excess_bytes(self._ssd))
        if not evicted and self._ssd.room_bytes + self._leaving_bytes(self._ssd) < 0:
            # The limit was lowered, and all blocks here have children in DRAM.
            evicted = self._evict(Tier.DRAM, -self._ssd.room_bytes)
        return evicted

    def _empty_dram(self, moves_max: int) -> tuple[list[Move], int]:
        if self._dram.trouble:
            return [], 0
        excess_bytes = self._excess_bytes(self._dram)
        if excess_bytes <= 0:
            return [], 0
        moves, moved_bytes = self._demote(excess_bytes, moves_max)
        if moves or self._has_ssd_room_soon():
            return moves, 0
        dropped = self._evict(Tier.DRAM, excess_bytes - moved_bytes)
        if not dropped and not self._ssd.is_usable:
            # All blocks in DRAM have children on the SSD, and nothing can follow them there.
            dropped = self._evict(Tier.SSD, excess_bytes)
        return [], dropped

    def _demote(self, excess_bytes: int, moves_max: int) -> tuple[list[Move], int]:
        """Plan moves of the coldest blocks to the SSD, as far as that has room."""
        moves: list[Move] = []
        moved_bytes = 0
        if not self._ssd.is_usable:
            return moves, moved_bytes
        for block in self._coldest(Tier.DRAM):
            if moved_bytes >= excess_bytes or len(moves) >= moves_max:
                break
            if block.is_moving or block.copy.readers:
                continue
            stored_bytes = block.copy.stored_bytes
            move = self.plan_move(block, Tier.SSD)
            if move is None:
                break
            moves.append(move)
            moved_bytes += stored_bytes
        return moves, moved_bytes

    def _has_ssd_room_soon(self) -> bool:
        """Whether the SSD will take a block as soon as something is erased."""
        return self._ssd.is_usable and self._leaving_bytes(self._ssd) > 0

    def _evict(self, tier: Tier, excess_bytes: int) -> int:
        """Drop the coldest leaves of a tier and return how many."""
        evicted = 0
        if excess_bytes <= 0:
            return evicted
        for block in self._coldest(tier):
            if excess_bytes <= 0 or evicted >= EVICTIONS_MAX:
                break
            if self._holdings.may_leave(block):
                excess_bytes -= block.copy.stored_bytes
                evicted += self._holdings.remove(block)
        return evicted

    def _coldest(self, tier: Tier) -> Iterator[Block]:
        """
        The blocks of a tier, coldest first, each once.

        Those that the caller passes over get a second chance at the hot end, so that the next
        plan does not meet them again.
        """
        policy = self._holdings.policy
        left = min(policy.entry_count(tier), VICTIMS_MAX)
        while left > 0:
            batch = policy.victims(tier, min(left, VICTIMS_BATCH))
            for block in batch:
                yield block
                policy.spared(block)
            left -= len(batch)

    def _excess_bytes(self, shelf: Shelf) -> int:
        """Bytes that must leave a tier beyond those that are leaving; 0 or less if none."""
        leaving_bytes = self._leaving_bytes(shelf)
        if shelf.wanted_bytes <= shelf.room_bytes + leaving_bytes:
            shelf.wanted_bytes = 0
        level_bytes = shelf.used_bytes + shelf.reserved_bytes - leaving_bytes
        over_bytes = level_bytes - self.ceiling_bytes(shelf.tier)
        return max(over_bytes, shelf.wanted_bytes - shelf.room_bytes - leaving_bytes)

    def _leaving_bytes(self, shelf: Shelf) -> int:
        """Bytes of condemned copies, and of those that are being moved elsewhere."""
        return shelf.condemned_bytes + sum(
            move.source.stored_bytes
            for move in self._moves.values()
            if move.source.ref.tier is shelf.tier and move.source.state is CopyState.STORED
        )
