"""The records of blocks and of their copies in the stores. Pure."""

import enum
from dataclasses import dataclass, field
from typing import Optional

from hearthkv.core.block_ref import BlockRef
from hearthkv.core.tier import Tier


class CopyState(enum.Enum):
    """What the bytes of a copy are counted as."""

    RESERVED = "reserved"
    STORED = "stored"
    CONDEMNED = "condemned"
    """To be erased: as soon as its last reader is done, and counted until that is confirmed."""

    GONE = "gone"


@dataclass(eq=False, slots=True)
class Copy:
    """A copy's place on its shelf."""

    ref: BlockRef
    stored_bytes: int
    """Bytes that it takes in the store, frame and alignment included."""

    state: CopyState = CopyState.RESERVED
    readers: int = 0
    """Reads and moves that use it now."""

    is_void: bool = False
    """The store was emptied while the copy was being written, so nobody knows what is there."""


@dataclass(eq=False, slots=True)
class Block:
    """
    A held block: a node in the tree of its namespace.

    Invariant (I2): a held block's parent is held.
    """

    namespace_id: bytes
    key: bytes
    parent: Optional["Block"]
    """The block before it; None for a prompt's first block."""

    copy: Copy
    """Where its bytes are."""

    depth: int
    """Index in its prompt: the number of blocks before it."""

    children: dict["Block", None] = field(default_factory=dict)
    """In the order in which they came: a set's would hang on their addresses, and two runs of one
    story would differ."""

    pending_children: int = 0
    """Writes under way that name it as their parent."""

    is_moving: bool = False
    is_held: bool = True
    """False once it was dropped, lost or evicted; it never comes back as the same object."""

    @property
    def tier(self) -> Tier:
        """Where its bytes are."""
        return self.copy.ref.tier
