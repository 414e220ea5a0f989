"""The eviction policies by the names that settings use. Pure."""

from collections.abc import Callable

from cachenode.block import Block
from cachenode.eviction.lru_with_media_priority import LruWithMediaPriority
from cachenode.eviction.protocol import EvictionPolicy

POLICIES: dict[str, Callable[[], EvictionPolicy[Block]]] = {
    "lru_with_media_priority": LruWithMediaPriority,
}


def policy_named(name: str) -> EvictionPolicy[Block]:
    """Return a new policy. `KvCacheSettings` has checked the name."""
    return POLICIES[name]()
