"""Which blocks wait to be lifted from the SSD to DRAM before their turn. Pure."""

from collections.abc import Iterable

from cachenode.block import Block
from cachenode.holdings import Holdings
from cachenode.plans import Move
from cachenode.tiering import Tiering
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.tier import Tier

QUEUE_BLOCKS_MAX = 65_536


class Prefetch:
    """
    A queue of blocks that are expected to be read soon, in the order of their prompts.

    Lifting may fill DRAM to half-way between its threshold and its limit, and waits there until
    demotion has made room: so the expected blocks change places with the coldest, and writes
    keep the other half of the slack.
    """

    def __init__(self, holdings: Holdings, tiering: Tiering) -> None:
        self._holdings = holdings
        self._tiering = tiering
        self._dram = holdings.shelves[Tier.DRAM]
        self._ssd = holdings.shelves[Tier.SSD]
        self._queue: dict[Block, None] = {}
        self._queued_bytes = 0

    def request(self, namespace_id: bytes, keys: PackedKeys) -> int:
        """
        Queue the SSD blocks of a held prefix, as many as DRAM can hold beside its other blocks.

        Those that are in DRAM already are kept there, for they are as likely to be read. So no
        block of a prefix makes way for another one, and one that is larger than DRAM stays put.

        Returns:
            Blocks that are now queued or on their way, be it through this request or another.
        """
        return self.lift(self._holdings.tree.prefix(namespace_id, keys))

    def lift(self, prompt: Iterable[Block]) -> int:
        """Queue the SSD blocks of a prompt, given from its first block on, as `request` does."""
        if not (self._dram.is_usable and self._ssd.is_usable):
            return 0
        run = list(prompt)
        if run:
            self._holdings.keep_warm(run[-1])
        room_bytes = self._tiering.ceiling_bytes(Tier.DRAM) - self._queued_bytes
        room_bytes -= sum(
            self._dram_bytes(block) for block in run if block.tier is Tier.DRAM or block.is_moving
        )
        coming = 0
        for block in run:
            if block.tier is not Tier.SSD:
                continue
            if not (block.is_moving or block in self._queue):
                room_bytes -= self._dram_bytes(block)
                if room_bytes < 0 or len(self._queue) >= QUEUE_BLOCKS_MAX:
                    break
                self._queue[block] = None
                self._queued_bytes += self._dram_bytes(block)
            coming += 1
        return coming

    def plan(self, moves_max: int) -> tuple[Move, ...]:
        """Plan the next moves, as many as there is room for now."""
        moves: list[Move] = []
        if not (self._dram.is_usable and self._ssd.is_usable):
            return ()
        while self._queue and len(moves) < moves_max:
            block = next(iter(self._queue))
            is_wanted = block.is_held and block.tier is Tier.SSD and not block.is_moving
            if is_wanted and not self._fits(block):
                break
            del self._queue[block]
            self._queued_bytes -= self._dram_bytes(block)
            if is_wanted:
                move = self._tiering.plan_move(block, Tier.DRAM)
                assert move is not None
                moves.append(move)
        return tuple(moves)

    def _fits(self, block: Block) -> bool:
        limit_bytes = self._dram.limits.limit_bytes
        fill_bytes_max = (self._tiering.ceiling_bytes(Tier.DRAM) + limit_bytes) // 2
        fill_bytes = self._dram.used_bytes + self._dram.reserved_bytes
        return fill_bytes + self._dram_bytes(block) <= fill_bytes_max

    def _dram_bytes(self, block: Block) -> int:
        return self._dram.limits.stored_bytes(block.copy.ref.size_bytes)
