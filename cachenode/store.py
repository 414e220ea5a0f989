"""The seam between a node and what keeps its blocks: `BlockStore`. Pure."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.tier import Tier


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

    Every call ends within the store's deadline. It raises StoreUnavailableError where the
    store does not answer, and nothing else but what is named with the call. One suite,
    tests/contract/test_block_store.py, holds every implementation to this.
    """

    @property
    def tier(self) -> Tier:
        """The tier that the store stands for."""
        ...

    async def put(self, frame: BlockFrame, payload: bytes | bytearray | memoryview) -> None:
        """
        Store a copy of a block; when this returns, it outlives a kill of the node.

        Raises:
            StoreFullError: If there is no space. Nothing is left behind.
            StoreUnavailableError: If the store does not answer. The block may be there or not.
        """
        ...

    async def get(self, ref: BlockRef) -> memoryview:
        """
        Return the payload of a copy, its frame and its checksum verified.

        Raises:
            BlockLostError: If the store does not have it, or what it has is something else.
            StoreUnavailableError: If the store does not answer.
        """
        ...

    async def erase(self, refs: Sequence[BlockRef]) -> None:
        """Forget copies; those that are not there are passed over."""
        ...

    def scan(self) -> AsyncIterator[ScanPart]:
        """Go over all copies, each once, and remove what is torn or damaged."""
        ...

    async def check(self) -> StoreCheck:
        """Look whether the store is well. Never raises for a store in trouble."""
        ...

    async def close(self) -> None:
        """Let go of connections and threads; what is stored stays."""
        ...
