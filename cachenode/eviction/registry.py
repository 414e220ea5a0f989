"""The eviction policies by the names that settings use. Pure."""

from collections.abc import Callable, Hashable

from cachenode.block import Block
from cachenode.eviction.hit_density import HitDensity
from cachenode.eviction.lru import Lru
from cachenode.eviction.lru_with_media_priority import LruWithMediaPriority
from cachenode.eviction.protocol import Entry, EvictionPolicy
from cachenode.eviction.s3fifo import S3Fifo

POLICIES = ("lru_with_media_priority", "lru", "s3fifo", "hit_density")


def policy_named(name: str) -> EvictionPolicy[Block]:
    """Return a new policy for blocks. `KvCacheSettings` has checked the name."""
    # A block that comes back is another object. All count alike, whatever their bytes.
    return new_policy(name, lambda block: (block.namespace_id, block.key), lambda _: 1)


def new_policy(
    name: str,
    identity_of: Callable[[Entry], Hashable],
    weight_of: Callable[[Entry], int],
) -> EvictionPolicy[Entry]:
    """
    Return a new policy for entries of any type.

    Args:
        name: One of `POLICIES`.
        identity_of: What an entry is recognised by when it comes back as another object.
        weight_of: Share of an entry in the size of a tier; the same at every call.
    """
    match name:
        case "lru":
            return Lru()
        case "s3fifo":
            return S3Fifo(identity_of, weight_of)
        case "hit_density":
            return HitDensity(identity_of, weight_of)
        case _:
            return LruWithMediaPriority()
