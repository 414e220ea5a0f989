"""What the catalog and the node hand each other between plan, perform and commit. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from hearthkv.core.block_io import ReadEnd
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import SessionId


@dataclass(frozen=True, slots=True)
class TierLimits:
    """How much a tier may hold, and what its store adds to a payload."""

    limit_bytes: int
    """0 switches the tier off."""

    frame_bytes: int = 0
    """Bytes that the store puts before a payload."""

    align_bytes: int = 1
    """Frame and payload together take a multiple of this."""

    entry_bytes: int = 0
    """Bytes that the store keeps of a copy elsewhere, not aligned."""

    def stored_bytes(self, size_bytes: int) -> int:
        """Bytes that a payload of `size_bytes` takes in the store."""
        units = -(-(self.frame_bytes + size_bytes) // self.align_bytes)
        return units * self.align_bytes + self.entry_bytes


@dataclass(frozen=True, slots=True, eq=False)
class ReadPlan:
    """Copies to read, in order; they stay until the plan is finished."""

    refs: tuple[BlockRef, ...]
    end: ReadEnd
    """Why the run ends: COMPLETE, MISS, or UNAVAILABLE if the next block's tier is in trouble."""


@dataclass(frozen=True, slots=True, eq=False)
class WriteTicket:
    """Room for one block; write `target`, then commit, abort or cancel."""

    spec: NamespaceSpec
    target: BlockRef
    session_id: SessionId | None


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """Copy `source` to `target`, then commit or abort."""

    source: BlockRef
    target: BlockRef


@dataclass(frozen=True, slots=True)
class Demotions:
    """What makes room in the tiers; the erasures of the evicted are queued."""

    moves: tuple[Move, ...] = ()
    evicted_blocks: int = 0

    def __bool__(self) -> bool:
        """Whether anything was planned."""
        return bool(self.moves) or self.evicted_blocks > 0


class RecoveredBlock(NamedTuple):
    """A copy that a store was found to hold."""

    spec: NamespaceSpec
    ref: BlockRef


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of recovered copies; the erasures of what was not kept are queued."""

    blocks: int
    orphans: int
    """Copies without an ancestor, or that do not fit their namespace."""

    duplicates: int
    """Copies of a block of which another copy was kept."""
