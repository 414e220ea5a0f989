"""The seam between a node and what keeps its blocks: `BlockStore`. Pure."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.direct_path import BlockAddress
from hearthkv.core.errors import StoreError
from hearthkv.core.tier import Tier

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class CopyRead:
    """One copy to read, and where to."""

    ref: BlockRef
    into: memoryview
    """Writable bytes, `ref.size_bytes` of them. Undefined where the outcome is an error, and not
    written to any more once the call has returned, however it did."""


@dataclass(frozen=True, slots=True)
class CopyWrite:
    """One copy to write."""

    frame: BlockFrame
    payload: Buffer
    """`frame.spec.block_bytes` bytes; the caller leaves them as they are until the call returns."""


@dataclass(frozen=True, slots=True)
class ScanPart:
    """A part of what a store holds."""

    frames: tuple[BlockFrame, ...]
    """Copies with a sound frame; their payloads were not looked at."""

    removed: int
    """Torn or damaged entries that were found in this part and removed."""


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """What a look at a store found."""

    trouble: str
    """Why it takes no blocks now; empty where it is well."""

    is_same: bool
    """Whether it is certainly what it was at the last look. A store that was emptied, replaced
    or started anew is not, and must be scanned."""

    advice: str = ""
    """What an operator should change, though the store works; empty where nothing."""


class BlockStore(Protocol):
    """
    Keeps copies of blocks under their frames, and knows nothing of prefixes, limits or eviction.

    Every call ends within the store's deadline. What becomes of a block is a value, one for each
    block of a batch, in its order: None where all is well, else a StoreError. One suite,
    tests/contract/test_block_store.py, holds every implementation to this.
    """

    @property
    def tier(self) -> Tier:
        """The tier that the store stands for."""
        ...

    async def put(self, writes: Sequence[CopyWrite]) -> list[StoreError | None]:
        """
        Store copies of blocks. What is stored when this returns outlives a kill of the node.

        Returns:
            None for a copy that is stored; StoreFullError where there is no space, and nothing
            is left behind; StoreUnavailableError where the store does not answer, and the copy
            may be there or not.
        """
        ...

    async def get(self, reads: Sequence[CopyRead]) -> list[StoreError | None]:
        """
        Read payloads into the caller's memory.

        Returns:
            None where the right bytes are in place, frame and checksum verified (I1);
            BlockLostError where the store does not have them, or has something else;
            StoreUnavailableError where it does not answer.
        """
        ...

    async def erase(self, refs: Sequence[BlockRef]) -> None:
        """
        Forget copies; those that are not there are passed over.

        Raises:
            StoreUnavailableError: If the store does not answer.
        """
        ...

    def scan(self) -> AsyncIterator[ScanPart]:
        """
        Go over all copies, each once, and remove what is torn or damaged.

        Raises:
            StoreUnavailableError: If the store does not answer.
        """
        ...

    async def check(self) -> StoreCheck:
        """Look whether the store is well. Never raises for a store in trouble."""
        ...

    def locate(self, refs: Sequence[BlockRef]) -> Sequence[BlockAddress | None]:
        """
        Say where copies lie, or would lie, for a process on this host to reach them by itself.

        Returns:
            For each its address; None where the copy can only be had through the node.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and threads; what is stored stays."""
        ...


@runtime_checkable
class DirectStore(BlockStore, Protocol):
    """
    A store that clients can write copies into by themselves.

    A client writes to a name that is only reserved, with a time to live. So what nobody confirms
    vanishes by itself, also when the client or the node was killed.
    """

    async def confirm(self, refs: Sequence[BlockRef]) -> list[StoreError | None]:
        """
        Let copies that clients wrote count as stored: they stay, and scans find them.

        Returns:
            None for a copy that is stored now as if by `put`; BlockLostError where there is none
            of its size under the reserved name; StoreUnavailableError where the store does not
            answer, and the copy may be stored or not.
        """
        ...

    async def discard(self, refs: Sequence[BlockRef]) -> None:
        """
        Erase copies that are not confirmed; those that are not there are passed over.

        Raises:
            StoreUnavailableError: If the store does not answer.
        """
        ...
