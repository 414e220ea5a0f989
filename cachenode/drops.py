"""Forgetting on request or after a loss: blocks, sessions, namespaces, a store. Pure."""

from cachenode.block_tree import path
from cachenode.holdings import Holdings
from hearthkv.core.block_io import DropBlocks, DropSession, DropTarget
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier


def drop(holdings: Holdings, target: DropTarget) -> int:
    """Forget what a caller names, pinned or not, and return how many blocks that were."""
    if isinstance(target, DropBlocks):
        return _drop_blocks(holdings, target.namespace_id, target.keys)
    if isinstance(target, DropSession):
        return _drop_session(holdings, target.session_id)
    roots = [b for b in holdings.tree.blocks(target.namespace_id) if b.parent is None]
    return sum(holdings.remove(root) for root in roots)


def lose(holdings: Holdings, ref: BlockRef) -> int:
    """
    Forget a block whose bytes proved lost or damaged, and all that hang on it (I2).

    Returns:
        Blocks forgotten; 0 where another copy stands for the block by now, or none.
    """
    block = holdings.tree.find(ref.namespace_id, ref.key)
    if block is None or block.copy.ref != ref:
        return 0
    return holdings.remove(block)


def forget_tier(holdings: Holdings, tier: Tier) -> int:
    """Forget the blocks of a store that was emptied, and all that hang on them (I4)."""
    holdings.shelves[tier].forget()
    lost = [
        block
        for namespace_id in holdings.tree.namespace_ids()
        for block in holdings.tree.blocks(namespace_id)
        if block.tier is tier
    ]
    return sum(holdings.remove(block) for block in lost if block.is_held)


def _drop_blocks(holdings: Holdings, namespace_id: bytes, keys: PackedKeys) -> int:
    dropped = 0
    for key in keys:
        block = holdings.tree.find(namespace_id, key)
        if block is not None:
            dropped += holdings.remove(block)
    return dropped


def _drop_session(holdings: Holdings, session_id: SessionId) -> int:
    """Peel a session's prompts from their tails, down to where somebody else needs them."""
    dropped = 0
    for tail in holdings.tails.forget(session_id):
        for block in path(tail):
            is_needed = (
                block.children
                or block.pending_children
                or holdings.pins.is_pinned(block)
                or holdings.tails.is_tail(block)
            )
            if is_needed or not block.is_held:
                break
            dropped += holdings.remove(block)
    return dropped
