"""A `BlockStore` in memory: for tests that are not about a store."""

from collections.abc import AsyncIterator, Callable, Sequence

from cachenode.store import CopyRead, CopyWrite, ScanPart, StoreCheck
from hearthkv.core.block_frame import (
    FRAME_BYTES,
    check_block,
    decode_frame,
    encode_frame,
)
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.direct_path import BlockAddress
from hearthkv.core.errors import (
    BlockLostError,
    FrameError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from hearthkv.core.tier import Tier

Name = tuple[bytes, bytes, int]


class MemoryStore:
    """Holds what a real store would, and fails when it is told to."""

    def __init__(self, tier: Tier = Tier.DRAM) -> None:
        self.tier = tier
        self.stored: dict[Name, bytes] = {}
        self.trouble: StoreError | None = None
        self.is_full = False
        self.address_of: Callable[[BlockRef], BlockAddress | None] = lambda _: None
        """Where it says that a copy lies."""

        self._is_same = False

    @property
    def used_bytes(self) -> int:
        return sum(map(len, self.stored.values()))

    def empty(self) -> None:
        """Lose everything, as a store that was started anew."""
        self.stored.clear()
        self._is_same = False

    def damage(self, ref: BlockRef, offset: int = FRAME_BYTES) -> None:
        """Flip one bit of what is stored."""
        stored = bytearray(self.stored[_name(ref)])
        stored[offset] ^= 1
        self.stored[_name(ref)] = bytes(stored)

    async def put(self, writes: Sequence[CopyWrite]) -> list[StoreError | None]:
        return [self.put_one(write) for write in writes]

    async def get(self, reads: Sequence[CopyRead]) -> list[StoreError | None]:
        return [self.get_one(read) for read in reads]

    def put_one(self, write: CopyWrite) -> StoreError | None:
        if self.trouble is not None:
            return self.trouble
        if self.is_full:
            return StoreFullError("the store is full")
        frame = write.frame
        self.stored[_name(frame.ref(self.tier))] = encode_frame(frame) + bytes(write.payload)
        return None

    def get_one(self, read: CopyRead) -> StoreError | None:
        if self.trouble is not None:
            return self.trouble
        stored = self.stored.get(_name(read.ref))
        if stored is None:
            return BlockLostError(f"the store has no block {read.ref.key.hex()}")
        try:
            read.into[:] = check_block(stored, read.ref)
        except FrameError as error:
            return BlockLostError(str(error))
        return None

    async def erase(self, refs: Sequence[BlockRef]) -> None:
        self._answer()
        for ref in refs:
            self.stored.pop(_name(ref), None)

    async def scan(self) -> AsyncIterator[ScanPart]:
        self._answer()
        for name, stored in list(self.stored.items()):
            try:
                yield ScanPart((decode_frame(stored),), 0)
            except FrameError:
                del self.stored[name]
                yield ScanPart((), 1)

    async def check(self) -> StoreCheck:
        if self.trouble is not None:
            self._is_same = False
            return StoreCheck(trouble=str(self.trouble), is_same=False)
        was_same, self._is_same = self._is_same, True
        return StoreCheck(trouble="the store is full" if self.is_full else "", is_same=was_same)

    def locate(self, refs: Sequence[BlockRef]) -> list[BlockAddress | None]:
        return [self.address_of(ref) for ref in refs]

    async def close(self) -> None:
        pass

    def break_down(self) -> None:
        """Stop answering."""
        self.trouble = StoreUnavailableError("the store does not answer")

    def heal(self) -> None:
        """Answer again."""
        self.trouble = None

    def _answer(self) -> None:
        if self.trouble is not None:
            raise self.trouble


def _name(ref: BlockRef) -> Name:
    return ref.namespace_id, ref.key, ref.sequence
