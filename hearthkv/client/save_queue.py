"""
Blocks that wait to be saved: which are taken, which are refused. Pure.

A block is of no use without the blocks before it (I2), so the first one that is not saved, for
whatever reason, opens a gap, and everything behind the gap is refused. Saving again from the
gap on closes it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from hearthkv.client.outcome import MISS_OF_STATUS, Finished, MissReason
from hearthkv.core.block_io import WriteStatus
from hearthkv.core.block_key import PackedKeys

BATCH_BLOCKS_MAX = 512
"""Blocks of one batch: small ones take a node far longer than their bytes say."""


class ByteBudget:
    """
    Bytes that all queues of a client may hold together (I3).

    Invariant: `0 <= used_bytes <= limit_bytes`.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def take(self, size_bytes: int) -> bool:
        """Take bytes if there are as many left, and say so."""
        if self.used_bytes + size_bytes > self.limit_bytes:
            return False
        self.used_bytes += size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Give back bytes that were taken."""
        assert size_bytes <= self.used_bytes
        self.used_bytes -= size_bytes


@dataclass(frozen=True, slots=True)
class QueuedBlock:
    """A block that waits to be saved."""

    index: int
    """Place in the prompt."""

    key: bytes
    parent_key: bytes
    """Empty for block 0."""

    payload: bytes


class SaveQueue:
    """The blocks of one turn that wait, and the account of those that do not any more."""

    def __init__(self, budget: ByteBudget, batch_bytes_max: int) -> None:
        self._budget = budget
        self._batch_bytes_max = batch_bytes_max
        self._waiting: deque[QueuedBlock] = deque()
        self._under_way: list[QueuedBlock] = []
        self._gap: int | None = None
        """First block that is not saved; nothing behind it is taken."""
        self._statuses = dict.fromkeys(WriteStatus, 0)
        self._refused_blocks = 0
        self._direct_blocks = 0
        self._miss: MissReason | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self._waiting and not self._under_way

    @property
    def account(self) -> Finished:
        """What became of the blocks so far; those that wait are in none of the counts."""
        already_held = self._statuses[WriteStatus.ALREADY_HELD]
        return Finished(
            saved_blocks=self._statuses[WriteStatus.STORED] + already_held,
            already_held_blocks=already_held,
            refused_blocks=self._refused_blocks,
            miss=self._miss,
            direct_blocks=self._direct_blocks,
        )

    def add(self, first_block: int, payloads: Sequence[memoryview], keys: PackedKeys) -> int:
        """
        Queue blocks that follow each other, and copy them; refuse those that don't fit.

        Args:
            first_block: Place of the first one in the prompt.
            payloads: Their bytes.
            keys: Keys of the prompt, from block 0 to these blocks at least.

        Returns:
            How many of them, from the first on, are queued.
        """
        if self._gap is not None and first_block <= self._gap:
            self._gap = None
        for offset, payload in enumerate(payloads):
            index = first_block + offset
            if self._gap is None and not self._budget.take(len(payload)):
                self._open_gap(index, MissReason.QUEUE_FULL)
            if self._gap is not None:
                self._refuse(len(payloads) - offset, MissReason.QUEUE_FULL)
                return offset
            parent_key = keys[index - 1] if index else b""
            self._waiting.append(QueuedBlock(index, keys[index], parent_key, bytes(payload)))
        return len(payloads)

    def next_batch(self) -> Sequence[QueuedBlock]:
        """
        Take the next blocks to write: neighbours, oldest first, within the bounds of a batch.

        At least one block, however large; none at all where nothing waits. The batch is under
        way until it is settled.
        """
        assert not self._under_way
        size_bytes = 0
        while self._waiting:
            block = self._waiting[0]
            size_bytes += len(block.payload)
            if self._under_way and (
                size_bytes > self._batch_bytes_max
                or len(self._under_way) >= BATCH_BLOCKS_MAX
                or block.index != self._under_way[-1].index + 1
            ):
                break
            self._under_way.append(self._waiting.popleft())
        return tuple(self._under_way)

    def settle(self, statuses: Sequence[WriteStatus], *, direct_blocks: int = 0) -> None:
        """
        Take note of what became of the batch that was under way.

        Args:
            statuses: One a block; a block without one counts as unavailable.
            direct_blocks: How many of them, from the first on, did not go through the node.
        """
        self._direct_blocks += sum(status.is_held for status in statuses[:direct_blocks])
        missing = len(self._under_way) - len(statuses)
        padded = [*statuses, *[WriteStatus.UNAVAILABLE] * missing]
        for block, status in zip(self._under_way, padded, strict=False):
            self._statuses[status] += 1
            if not status.is_held:
                self._refuse(1, MISS_OF_STATUS[status])
                self._open_gap(block.index, MISS_OF_STATUS[status])
        self._free(self._under_way)
        self._under_way = []

    def abandon(self, reason: MissReason) -> None:
        """Refuse the batch that is under way and everything that waits."""
        given_up = [*self._under_way, *self._waiting]
        self._under_way = []
        self._waiting.clear()
        if given_up:
            self._refuse(len(given_up), reason)
            self._free(given_up)
            self._open_gap(min(block.index for block in given_up), reason)

    def _open_gap(self, index: int, reason: MissReason) -> None:
        """Refuse what waits behind `index`; an older gap before it stays."""
        if self._gap is not None and self._gap <= index:
            return
        self._gap = index
        behind = [block for block in self._waiting if block.index > index]
        self._waiting = deque(block for block in self._waiting if block.index <= index)
        if behind:
            self._refuse(len(behind), reason)
            self._free(behind)

    def _refuse(self, blocks: int, reason: MissReason) -> None:
        self._refused_blocks += blocks
        self._miss = self._miss or reason

    def _free(self, blocks: Sequence[QueuedBlock]) -> None:
        self._budget.give_back(sum(len(block.payload) for block in blocks))
