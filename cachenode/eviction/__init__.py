"""Eviction policies: who leaves a tier first. Pure."""

from cachenode.eviction.protocol import EvictionPolicy
from cachenode.eviction.registry import policy_named

__all__ = ["EvictionPolicy", "policy_named"]
