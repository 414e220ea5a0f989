"""What clients and nodes say to each other about blocks and their bytes. Pure."""

import enum
from dataclasses import dataclass
from typing import TypeAlias

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import BadRequestError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier, TierCounts, TierUsage

CHUNK_BYTES_MAX = 1024 * 1024
"""Payload bytes of one chunk on the wire."""

PIN_TTL_S_MAX = 3600.0


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """What is known of a block before its bytes."""

    key: bytes
    parent_key: bytes
    """Key of the block before it; empty for a prompt's first block."""

    size_bytes: int
    checksum: int
    """See `hearthkv.core.checksum.block_checksum`."""

    tier: Tier | None = None
    """Where the block was read from; None on a write."""


@dataclass(frozen=True, slots=True)
class BlockChunk:
    """A part of one block; the first part carries the header."""

    header: BlockHeader | None
    data: bytes | memoryview


class ReadEnd(enum.Enum):
    """Why a read ended."""

    COMPLETE = "complete"
    MISS = "miss"
    LOST = "lost"
    UNAVAILABLE = "unavailable"


class WriteStatus(enum.Enum):
    """What became of one written block."""

    STORED = "stored"
    ALREADY_HELD = "already_held"
    PARENT_MISSING = "parent_missing"
    NO_ROOM = "no_room"
    CORRUPT = "corrupt"
    UNAVAILABLE = "unavailable"

    @property
    def is_held(self) -> bool:
        """Whether the node has the block now."""
        return self in {WriteStatus.STORED, WriteStatus.ALREADY_HELD}


@dataclass(frozen=True, slots=True)
class WriteStart:
    """Opens a write."""

    spec: NamespaceSpec
    session_id: SessionId | None


ReadStep: TypeAlias = tuple[BlockChunk, ...] | ReadEnd
"""What one message of a read carries: chunks that follow each other, at least one, or its end."""

WriteStep: TypeAlias = tuple[BlockChunk, ...] | WriteStart
"""What one message of a write carries."""


@dataclass(frozen=True, slots=True)
class WriteAnswer:
    """What a node says at the end of a write."""

    statuses: list[WriteStatus]
    """What became of the blocks, in the order of their headers."""

    takes_chunks: bool
    """Whether several small blocks may come in one message from now on."""


@dataclass(frozen=True, slots=True)
class ReadQuery:
    """Asks for the bytes of the longest held run of blocks."""

    namespace_id: bytes
    keys: PackedKeys
    first_block: int
    """Where in the prompt `keys` begin."""

    session_id: SessionId | None
    takes_chunks: bool = False
    """Whether several small blocks may come in one message."""


@dataclass(frozen=True, slots=True)
class KeysQuery:
    """Names blocks of one namespace, from block 0 on."""

    namespace_id: bytes
    keys: PackedKeys


@dataclass(frozen=True, slots=True)
class MatchQuery:
    """Asks how much of a prompt is held, from block 0 on."""

    namespace_id: bytes
    keys: PackedKeys
    session_id: SessionId | None = None
    """Whose turn begins; None where nobody's does."""


@dataclass(frozen=True, slots=True)
class Matched:
    """How much of a prompt a node holds."""

    by_tier: TierCounts
    """Leading blocks that are held."""

    arriving_blocks: int
    """Leading blocks that are held, or on their way from another node."""


@dataclass(frozen=True, slots=True)
class PinQuery:
    """
    Asks that a prefix be kept for `ttl_s` seconds.

    Raises:
        BadRequestError: If `ttl_s` is not over 0 and at most PIN_TTL_S_MAX.
    """

    namespace_id: bytes
    keys: PackedKeys
    ttl_s: float

    def __post_init__(self) -> None:
        if not 0 < self.ttl_s <= PIN_TTL_S_MAX:
            raise BadRequestError(
                f"ttl is {self.ttl_s:g} s, must be over 0 and at most {PIN_TTL_S_MAX:g} s"
            )


@dataclass(frozen=True, slots=True)
class Pinned:
    """A pin that is in force; `pin_id` is empty if nothing was held."""

    pin_id: str
    blocks: int


@dataclass(frozen=True, slots=True)
class DropBlocks:
    """Forget these blocks and all that hang on them."""

    namespace_id: bytes
    keys: PackedKeys


@dataclass(frozen=True, slots=True)
class DropSession:
    """Forget what only this session uses."""

    session_id: SessionId


@dataclass(frozen=True, slots=True)
class DropNamespace:
    """Forget all blocks of a namespace."""

    namespace_id: bytes


DropTarget = DropBlocks | DropSession | DropNamespace


@dataclass(frozen=True, slots=True)
class NamespaceUsage:
    """A namespace that a node holds."""

    spec: NamespaceSpec
    blocks: int


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """A node's description of itself."""

    node_id: NodeId
    epoch: int
    tiers: tuple[TierUsage, ...]
    namespaces: tuple[NamespaceUsage, ...]
    pins: int
    version: str
    is_draining: bool = False
    """Whether it is about to leave."""
