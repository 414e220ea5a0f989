"""What is said of prefixes that move from one node to another. Pure."""

import enum
from dataclasses import dataclass

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import BadRequestError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import SessionId


class PullEnd(enum.Enum):
    """Why a pull ended. None of them is an error (I5)."""

    COMPLETE = "complete"
    """The whole prefix is held."""

    MISS = "miss"
    """The source does not hold the next block, or nothing is under way."""

    UNAVAILABLE = "unavailable"
    """The source does not answer, or what it sends can't be used."""

    NO_ROOM = "no_room"
    """The node has no room, or no store, for the next block."""

    BUSY = "busy"
    """The node has too many pulls under way."""


@dataclass(frozen=True, slots=True)
class PullQuery:
    """
    Asks a node to fetch a prefix from another node.

    Raises:
        BadRequestError: If no block is named, or `spec` is of another namespace.
    """

    namespace_id: bytes
    keys: PackedKeys
    """From block 0 on; empty where only the tip is known."""

    tip_key: bytes
    """The last block of the prefix; that of `keys` where there are any."""

    source_address: str = ""
    """Whom to fetch it from, host:port; empty: only wait for what is under way."""

    session_id: SessionId | None = None
    """On whose behalf."""

    spec: NamespaceSpec | None = None
    """None where the caller does not know the sizes."""

    def __post_init__(self) -> None:
        if not self.tip_key:
            raise BadRequestError("pull names no block, must have keys or a tip_key")
        if self.keys and self.keys[len(self.keys) - 1] != self.tip_key:
            raise BadRequestError("tip_key is not the last of keys, must be where there are both")
        if self.spec is not None and self.spec.namespace_id != self.namespace_id:
            raise BadRequestError("namespace has another id than namespace_id, must have that")


@dataclass(frozen=True, slots=True)
class PullProgress:
    """How far a pull has come."""

    held_blocks: int
    """Leading blocks of the prefix that the node holds."""

    pulled_blocks: int
    """Blocks that this pull has fetched."""

    end: PullEnd | None = None
    """None while it goes on."""


@dataclass(frozen=True, slots=True)
class LineageQuery:
    """Asks for the keys of the prefix that ends in a block."""

    namespace_id: bytes
    tip_key: bytes


@dataclass(frozen=True, slots=True)
class Lineage:
    """The keys of a prefix, from block 0 on."""

    spec: NamespaceSpec | None
    """None where the block is not held."""

    keys: PackedKeys
    """None at all where the block is not held."""
