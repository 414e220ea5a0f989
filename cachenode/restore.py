"""Build the holdings anew from what the stores were found to hold. Pure."""

from collections import deque
from collections.abc import Iterable

from cachenode.block import Block
from cachenode.holdings import Holdings
from cachenode.plans import RecoveredBlock, Restored
from hearthkv.core.errors import BlockSizeError
from hearthkv.core.tier import Tier

_Key = tuple[bytes, bytes]


def restore(holdings: Holdings, recovered: Iterable[RecoveredBlock]) -> Restored:
    """
    Hold every recovered block whose ancestors are held or recovered too (I4, I2).

    Of several copies of a block the one in DRAM is kept, else the newest; a block that is held
    already keeps its copy. All copies are counted, and those that are not kept are condemned, so
    that the accounting is right before and after their erasure.

    Args:
        holdings: Usually empty; may be in use, when a store answers late.
        recovered: Copies in any order.
    """
    best, duplicates = _best_copies(holdings, recovered)
    children: dict[_Key, list[RecoveredBlock]] = {}
    for found in best.values():
        children.setdefault((found.ref.namespace_id, found.ref.parent_key), []).append(found)

    # Roots are those whose parent is held already, or that have none.
    ready = deque(found for found in best.values() if _is_ready(holdings, found))
    admitted = []
    while ready:
        found = ready.popleft()
        block = _admit(holdings, found)
        if block is not None:
            admitted.append(block)
            ready.extend(children.get((block.namespace_id, block.key), ()))
            del best[block.namespace_id, block.key]

    for orphan in best.values():
        holdings.condemn(holdings.shelves[orphan.ref.tier].put(orphan.ref))
    _rank(holdings, admitted)
    return Restored(len(admitted), len(best), duplicates)


def _best_copies(
    holdings: Holdings, recovered: Iterable[RecoveredBlock]
) -> tuple[dict[_Key, RecoveredBlock], int]:
    """Choose one copy a block, and condemn the others."""
    best: dict[_Key, RecoveredBlock] = {}
    duplicates = 0
    for found in recovered:
        ref = found.ref
        holdings.skip_sequences(ref.sequence)
        if (
            holdings.shelves[ref.tier].find(ref) is not None
            or best.get((ref.namespace_id, ref.key)) == found
        ):
            continue
        name = (ref.namespace_id, ref.key)
        loser: RecoveredBlock | None = found
        if holdings.tree.find(*name) is None:
            rival = best.get(name)
            if rival is None or _merit(found) > _merit(rival):
                best[name], loser = found, rival
        if loser is not None:
            holdings.condemn(holdings.shelves[loser.ref.tier].put(loser.ref))
            duplicates += 1
    return best, duplicates


def _merit(found: RecoveredBlock) -> tuple[bool, int]:
    return found.ref.tier is Tier.DRAM, found.ref.sequence


def _is_ready(holdings: Holdings, found: RecoveredBlock) -> bool:
    parent_key = found.ref.parent_key
    return not parent_key or holdings.tree.find(found.ref.namespace_id, parent_key) is not None


def _admit(holdings: Holdings, found: RecoveredBlock) -> Block | None:
    """Hold a recovered block; None if it does not fit its namespace."""
    try:
        holdings.tree.check(found.spec)
    except BlockSizeError:
        return None
    if found.ref.size_bytes != found.spec.block_bytes:
        return None
    copy = holdings.shelves[found.ref.tier].put(found.ref)
    return holdings.admit(found.spec, copy)


def _rank(holdings: Holdings, admitted: list[Block]) -> None:
    """Rank blocks by the newest copy that hangs on them: a parent is never colder (see `heat`)."""
    newest: dict[Block, int] = {block: block.copy.ref.sequence for block in admitted}
    for block in reversed(admitted):  # children before parents
        if block.parent in newest:
            newest[block.parent] = max(newest[block.parent], newest[block])
    holdings.policy.warmed(sorted(admitted, key=lambda block: (newest[block], -block.depth)))
