"""Records of blocks and copies."""

from cachenode.block import Block, Copy, CopyState
from hearthkv.core.tier import Tier
from tests.unit.cachenode.catalog_kit import NAMESPACE_ID, key, ref


def test_a_block_is_in_the_tier_of_its_copy():
    block = Block(NAMESPACE_ID, key(1), None, Copy(ref(1, tier=Tier.SSD), 100), depth=0)
    assert block.tier is Tier.SSD
    block.copy = Copy(ref(1, tier=Tier.DRAM), 100)
    assert block.tier is Tier.DRAM


def test_blocks_and_copies_are_told_apart_by_identity():
    """A block that was dropped and written anew is another block."""
    copy, twin = Copy(ref(1), 100), Copy(ref(1), 100)
    assert copy != twin
    assert copy.state is CopyState.RESERVED
    assert Block(NAMESPACE_ID, key(1), None, copy, 0) != Block(NAMESPACE_ID, key(1), None, copy, 0)
