"""Tests of `cachenode.store`; what a store does is tested by tests/contract/test_block_store.py."""

from cachenode.store import BlockStore, StoreCheck
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore


def test_a_store_is_known_by_what_it_can_do():
    store: BlockStore = MemoryStore(Tier.SSD)
    assert store.tier is Tier.SSD


def test_a_look_gives_no_advice_where_none_is_needed():
    assert StoreCheck(trouble="", is_same=True).advice == ""
