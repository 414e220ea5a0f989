"""What the cache did for a turn, and why it did no more. Pure."""

import enum
from dataclasses import dataclass, field

from hearthkv.core.block_io import ReadEnd, WriteStatus
from hearthkv.core.errors import (
    PeerContractError,
    PeerError,
    PeerRefusedError,
    PeerTimeoutError,
)
from hearthkv.core.tier import TierCounts


class MissReason(enum.Enum):
    """Why blocks were not loaded, or not saved. None of them fails a turn (I5)."""

    NO_ROUTER = "no_router"
    """No router answered, and no node of the last list is left to try."""

    NO_NODE = "no_node"
    """A router answered that no node is live."""

    NODE_UNREACHABLE = "node_unreachable"
    """The node can't be reached, or could not be a moment ago and is left alone."""

    TIMEOUT = "timeout"
    """The deadline was over, or the node sent nothing for too long."""

    REFUSED = "refused"
    """The node answered that it will not."""

    BAD_ANSWER = "bad_answer"
    """The node's answer breaks the contract."""

    NOT_HELD = "not_held"
    """The node does not hold the next block."""

    LOST = "lost"
    """The node held the next block, but its bytes are gone."""

    CORRUPT = "corrupt"
    """The bytes of the next block do not match their checksum."""

    TIER_UNAVAILABLE = "tier_unavailable"
    """The node's tier does not answer, or takes no blocks now."""

    PARENT_MISSING = "parent_missing"
    """A block was not saved, because the block before it is not held."""

    NO_ROOM = "no_room"
    """A block was not saved, because no tier of the node has room."""

    QUEUE_FULL = "queue_full"
    """A block was not saved, because too many bytes wait to be."""

    RECOMPUTE = "recompute"
    """To load the next block would take longer than to compute it."""

    BYPASS = "bypass"
    """The caller asked to leave the cache alone."""

    CLOSED = "closed"
    """The client was closed before the block was saved."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load brought: a run of blocks without a gap, each verified."""

    blocks: int = 0
    tokens: int = 0
    by_tier: TierCounts = field(default_factory=TierCounts)
    miss: MissReason | None = None
    """Why the run ended; None where every block that was asked for came."""

    direct_blocks: int = 0
    """How many of them were read from the node's stores, and not through the node."""

    pulled_blocks: int = 0
    """How many of them the node did not hold when the turn began, and got from another node."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of a turn's saves."""

    saved_blocks: int = 0
    """Blocks that the node holds now, those that it held before included."""

    already_held_blocks: int = 0
    """How many of them it held before."""

    refused_blocks: int = 0
    """Blocks that are not saved: a miss later."""

    miss: MissReason | None = None
    """Why the first of them was refused; None where none was."""

    direct_blocks: int = 0
    """How many of the saved ones went past the node, straight into its store."""


MISS_OF_END: dict[ReadEnd, MissReason] = {
    ReadEnd.COMPLETE: MissReason.BAD_ANSWER,  # complete, and yet there are blocks to come
    ReadEnd.MISS: MissReason.NOT_HELD,
    ReadEnd.LOST: MissReason.LOST,
    ReadEnd.UNAVAILABLE: MissReason.TIER_UNAVAILABLE,
}

MISS_OF_STATUS: dict[WriteStatus, MissReason] = {
    WriteStatus.PARENT_MISSING: MissReason.PARENT_MISSING,
    WriteStatus.NO_ROOM: MissReason.NO_ROOM,
    WriteStatus.CORRUPT: MissReason.CORRUPT,
    WriteStatus.UNAVAILABLE: MissReason.TIER_UNAVAILABLE,
}


def miss_of(error: PeerError) -> MissReason:
    """Return what a node's failure means to a turn."""
    if isinstance(error, PeerTimeoutError):
        return MissReason.TIMEOUT
    if isinstance(error, PeerRefusedError):
        return MissReason.REFUSED
    if isinstance(error, PeerContractError):
        return MissReason.BAD_ANSWER
    return MissReason.NODE_UNREACHABLE
