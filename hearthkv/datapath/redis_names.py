"""
What a node's Redis servers hold under which name, and which server holds what. Pure.

Node and client compute the same names, and so need not tell them to each other::

    hearthkv:NODE:block:     lengths, namespace id, key, sequence    a copy of a block
    hearthkv:NODE:reserved:  the same                                written by a client, and
                                                                     not yet confirmed
    hearthkv:NODE:epoch                                              which start of the node
                                                                     filled this server
"""

from collections.abc import Sequence
from functools import lru_cache

import xxhash

from hearthkv.core.block_ref import BlockRef
from hearthkv.core.session_id import NodeId


class RedisNames:
    """The names of one node."""

    def __init__(self, node_id: NodeId) -> None:
        prefix = f"hearthkv:{node_id}:"
        self.block_prefix = f"{prefix}block:".encode()
        self._reserved_prefix = f"{prefix}reserved:".encode()
        self.epoch = f"{prefix}epoch".encode()

    def block(self, namespace_id: bytes, key: bytes, sequence: int) -> bytes:
        """Return the name of a stored copy."""
        return self.block_prefix + _copy_name(namespace_id, key, sequence)

    def block_of(self, ref: BlockRef) -> bytes:
        """Return the name of a stored copy."""
        return self.block(ref.namespace_id, ref.key, ref.sequence)

    def reserved(self, namespace_id: bytes, key: bytes, sequence: int) -> bytes:
        """Return the name of a copy that is not confirmed yet; it has a time to live."""
        return self._reserved_prefix + _copy_name(namespace_id, key, sequence)

    def reserved_of(self, ref: BlockRef) -> bytes:
        """Return the name of a copy that is not confirmed yet; it has a time to live."""
        return self.reserved(ref.namespace_id, ref.key, ref.sequence)


def epoch_value(epoch: int) -> bytes:
    """Return what a server holds under the name of the epoch."""
    return f"{epoch:016x}".encode()


def server_seed(place: str) -> int:
    """Return the seed of a server's draws; `place` is its `str(RedisPlace)`."""
    return xxhash.xxh3_64_intdigest(place.encode())


def server_index(block_name: bytes, seeds: Sequence[int]) -> int:
    """
    Choose the server of a copy: the highest draw wins, so that one more server moves few blocks.

    Args:
        block_name: Name of the stored copy, also where it is only reserved yet.
        seeds: Of all servers, at least one; see `server_seed`.
    """
    if len(seeds) == 1:
        return 0
    draw = xxhash.xxh3_64_intdigest
    return max(range(len(seeds)), key=lambda index: draw(block_name, seed=seeds[index]))


def _copy_name(namespace_id: bytes, key: bytes, sequence: int) -> bytes:
    return _name_start(namespace_id, len(key)) + key + sequence.to_bytes(8, "little")


@lru_cache(maxsize=1024)
def _name_start(namespace_id: bytes, key_bytes: int) -> bytes:
    # The lengths go in, so that no two copies share a name.
    return bytes((len(namespace_id), key_bytes)) + namespace_id
