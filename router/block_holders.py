"""
Which holdings have which blocks, in which tier, and how many in all. Pure.

A holding is a bit; whose it is, is no matter here. A namespace has one table, key -> number of a
state, and the state says which holdings have the block and in which tier. Nothing is kept by
holding but counts: a block costs about 36 bytes, however many holdings have it. What one holding
has is found by a *hand* that goes round over all blocks, a bounded piece at a time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import length_hint

from hearthkv.core.tier import Tier
from router.holder_states import NOBODY, HolderStates, bits_of
from router.key_table import KeyTable

TableName = tuple[bytes, int]
"""Namespace, and width of the keys."""

_TIERS = tuple(Tier)


@dataclass(slots=True)
class _Move:
    """What becomes of the blocks that are in one state."""

    after: int
    bits: int
    """The holdings for which the two states differ."""

    blocks: int = 0


class BlockHolders:
    """The blocks of all holdings. See the module."""

    def __init__(self) -> None:
        self.states = HolderStates()
        self.tables: dict[TableName, KeyTable] = {}
        """Tables with at least one block; their numbers are states."""

        self.keys = 0
        """Blocks of all holdings; one that two of them have counts twice."""

        self._keys_of: dict[int, int] = {}
        self._by_tier: dict[tuple[int, TableName], list[int]] = {}
        self._round: list[TableName] = []  # what the hand has still to go over, last first
        self._at = 0  # the entry of the last of them that it looks at next

    def keys_of(self, bit: int) -> int:
        """Return how many blocks a holding has."""
        return self._keys_of.get(bit, 0)

    def tiers_of(self, bit: int, name: TableName) -> list[Tier]:
        """Return the tiers in which a holding has blocks of a table."""
        by_tier = self._by_tier.get((bit, name))
        return [] if by_tier is None else [tier for tier in _TIERS if by_tier[tier]]

    def has(self, bit: int, name: TableName, key: bytes) -> bool:
        """Return whether a holding has a block."""
        table = self.tables.get(name)
        return table is not None and bool(self.states.held[table.number_of(key)] & bit)

    def put(self, bit: int, name: TableName, keys: Iterable[bytes], tier: Tier) -> None:
        """Note that a holding has blocks in `tier` now, wherever it had them before."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = KeyTable(name[1])
        moves: dict[int, _Move] = {}
        numbers, put = table.numbers, table.put
        for key in keys:
            entry = put(key)
            state = numbers[entry]
            move = moves.get(state)
            if move is None:
                move = moves[state] = _Move(self.states.with_tier(state, bit, tier), bit)
            numbers[entry] = move.after
            move.blocks += 1
        self._account(name, moves)

    def remove(self, bit: int, name: TableName, keys: Iterable[bytes]) -> None:
        """Note that a holding has blocks no more; what it did not have is no matter."""
        table = self.tables.get(name)
        if table is not None:
            self._take(name, map(table.find, keys), bit, self.keys)

    def turn_hand(self, bits: int, blocks_max: int, keys_max: int) -> int:
        """
        Take blocks from holdings, the last ones of a table first.

        Args:
            bits: The holdings.
            blocks_max: Blocks that the hand may look at, whoever has them.
            keys_max: Keys after which it stops; a few more may go where several holdings have
                the last block.

        Returns:
            Keys that were taken.
        """
        taken = 0
        while blocks_max > 0 and taken < keys_max and self.tables:
            table = self.tables.get(self._round[-1]) if self._round else None
            if table is None or not self._at:
                self._begin_table()
                blocks_max -= 1  # so that many small tables are not gone over at once
                continue
            start = min(self._at, table.last_entry)  # it may have gone and come again meanwhile
            end = max(0, start - blocks_max)
            entries = iter(range(start, end, -1))
            blocks_max -= start - end
            taken += self._take(self._round[-1], entries, bits, keys_max - taken)
            self._at = end + length_hint(entries)
        return taken

    def _begin_table(self) -> None:
        """Move the hand to the next table that is still there; after the last, begin anew."""
        if self._round:
            self._round.pop()
        if not self._round:
            self._round = list(self.tables)
        table = self.tables.get(self._round[-1])
        self._at = 0 if table is None else table.last_entry

    def _take(self, name: TableName, entries: Iterable[int], bits: int, keys_max: int) -> int:
        """Take holdings off entries, those not in use included; return how many keys went."""
        table = self.tables[name]
        moves: dict[int, _Move] = {}
        numbers, held, keys = table.numbers, self.states.held, 0
        for entry in entries:
            state = numbers[entry]
            taken_bits = held[state] & bits
            if not taken_bits:
                continue
            move = moves.get(state)
            if move is None:
                move = moves[state] = _Move(self.states.without(state, bits), taken_bits)
            if move.after == NOBODY:
                table.remove(entry)
            else:
                numbers[entry] = move.after
            move.blocks += 1
            keys += taken_bits.bit_count()
            if keys >= keys_max:
                break
        self._account(name, moves)
        return keys

    def _account(self, name: TableName, moves: Mapping[int, _Move]) -> None:
        """Bring all counts up to date with what became of blocks of one table."""
        uses = self.states.uses
        for state, move in moves.items():
            uses[state] -= move.blocks
            uses[move.after] += move.blocks
            for bit in bits_of(move.bits):
                self._count(bit, name, state, move)
        self.states.release(moves)
        if not self.tables[name]:
            del self.tables[name]

    def _count(self, bit: int, name: TableName, state: int, move: _Move) -> None:
        before = self.states.tier_of(state, bit)
        after = self.states.tier_of(move.after, bit)
        # Place 0, for blocks that the holding has not, becomes the negative sum of the others.
        by_tier = self._by_tier.setdefault((bit, name), [0, 0, 0, 0])
        by_tier[before or 0] -= move.blocks
        by_tier[after or 0] += move.blocks
        if not by_tier[0]:
            del self._by_tier[bit, name]
        keys = move.blocks * ((after is not None) - (before is not None))
        self.keys += keys
        self._keys_of[bit] = self._keys_of.get(bit, 0) + keys
        if not self._keys_of[bit]:
            del self._keys_of[bit]
