"""The name of one copy of one block: what a catalog, a store and a client mean by it. Pure."""

from typing import NamedTuple

from hearthkv.core.tier import Tier


class BlockRef(NamedTuple):
    """
    One copy of one block in the store of one tier.

    A store names a copy by namespace, key *and* sequence. So the erasure of an old copy can
    come as late as it likes: it never hits a copy that was written after it.

    A tuple, since a start makes one for each block: it costs a fifth of a frozen dataclass.
    """

    namespace_id: bytes
    key: bytes
    parent_key: bytes
    """Key of the block before it; empty for a prompt's first block."""

    tier: Tier
    sequence: int
    """Number of the copy, 64 bits, never used twice by one node."""

    checksum: int
    """Of the payload; see `hearthkv.core.checksum.block_checksum`."""

    size_bytes: int
    """Payload bytes; what the store takes on top is in `TierLimits`."""
