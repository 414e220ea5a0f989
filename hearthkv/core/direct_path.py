"""What a client on the node's host and the node say to each other about stores. Pure."""

from dataclasses import dataclass, field

from hearthkv.core.block_io import ReadEnd, WriteStart, WriteStatus
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.errors import BadRequestError
from hearthkv.core.session_id import NodeId, SessionId

PROOF_BYTES = 32

PROOF_NAME = "proof"
"""What the file that holds it is called, whatever its folder."""

RESERVED_BLOCKS_MAX = 256
"""Blocks of one reservation."""


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """A copy that lies in one of the node's Redis servers, under the name of its `BlockRef`."""

    server: int
    """Index of the server."""


@dataclass(frozen=True, slots=True)
class FileAddress:
    """A copy whose payload lies in a file of the node's SSD folder."""

    name: str
    """Path of the file, relative to the folder."""

    offset: int
    """Where the payload begins."""


BlockAddress = RedisAddress | FileAddress


@dataclass(frozen=True, slots=True)
class Attachment:
    """A node's stores, as a process on its host reaches them."""

    node_id: NodeId
    epoch: int
    """Changes with every start of the node; each of its Redis servers holds it too."""

    redis_urls: tuple[str, ...] = field(repr=False)
    """With what is needed to be let in."""

    ssd_dir: str
    """Absolute path; empty where the node has no SSD tier."""

    is_direct_io: bool
    """Whether its files are to be read past the page cache (O_DIRECT)."""


@dataclass(frozen=True, slots=True)
class Attached:
    """The answer to an `Attach`: the way to the proof, and, with the right one, to the stores."""

    proof_path: str
    attachment: Attachment | None


@dataclass(frozen=True, slots=True)
class LocateQuery:
    """Asks where the longest held run of blocks lies."""

    proof: bytes = field(repr=False)
    namespace_id: bytes
    keys: PackedKeys
    first_block: int
    """Where in the prompt `keys` begin."""

    session_id: SessionId | None


@dataclass(frozen=True, slots=True)
class LocatedBlock:
    """One block's copy, and where it lies."""

    ref: BlockRef
    address: BlockAddress


@dataclass(frozen=True, slots=True)
class Located:
    """Where a prefix lies."""

    blocks: tuple[LocatedBlock, ...]
    end: ReadEnd
    """Why it ends. UNAVAILABLE: the next block is held, and a read from the node may give it."""


@dataclass(frozen=True, slots=True)
class ReserveQuery:
    """
    Asks for room for blocks of which each is the parent of the next.

    Raises:
        BadRequestError: If there are too many blocks or not one checksum a key, or the parent's
            key is of another width.
    """

    proof: bytes = field(repr=False)
    start: WriteStart
    keys: PackedKeys
    parent_key: bytes
    """Key of the block before the first; empty at the start of a prompt."""

    checksums: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.keys) > RESERVED_BLOCKS_MAX:
            raise BadRequestError(
                f"reservation has {len(self.keys)} blocks, must have {RESERVED_BLOCKS_MAX} at most"
            )
        if len(self.checksums) != len(self.keys):
            raise BadRequestError(
                f"reservation has {len(self.checksums)} checksums, must have {len(self.keys)}"
            )
        if self.parent_key and len(self.parent_key) != self.keys.width:
            raise BadRequestError(
                f"parent_key is {len(self.parent_key)} bytes, must be empty or {self.keys.width}"
            )


@dataclass(frozen=True, slots=True)
class ReservedCopy:
    """Room for one copy in a Redis server."""

    sequence: int
    server: int


@dataclass(frozen=True, slots=True)
class ThroughNode:
    """There is no room now where the client can write: the block is to go through the node."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """
    What was reserved.

    `outcomes` has one entry a block, in order; it ends with the first `ThroughNode`.
    """

    reservation_id: str
    """Empty where no copy was reserved."""

    outcomes: tuple[ReservedCopy | WriteStatus | ThroughNode, ...]
    ttl_s: float
    """How long the room is kept, and the time to live that the copies must be given."""
