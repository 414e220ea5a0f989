"""Build the holdings anew from what the stores were found to hold. Pure."""

from collections.abc import Iterable

from cachenode.block import Block
from cachenode.holdings import Holdings
from cachenode.plans import RecoveredBlock, Restored
from hearthkv.core.errors import BlockSizeError
from hearthkv.core.tier import Tier

_ByKey = dict[bytes, RecoveredBlock]


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
    admitted: list[Block] = []
    orphans = 0
    for by_key in best.values():
        while by_key:
            lineage = _lineage(by_key)
            orphans += _admit_in_turn(holdings, lineage, admitted)
    _rank(holdings, admitted)
    return Restored(len(admitted), orphans, duplicates)


def _best_copies(
    holdings: Holdings, recovered: Iterable[RecoveredBlock]
) -> tuple[dict[bytes, _ByKey], int]:
    """Choose one copy a block, by namespace and key, and condemn the others."""
    best: dict[bytes, _ByKey] = {}
    duplicates = 0
    highest = 0
    for found in recovered:
        ref = found.ref
        highest = max(highest, ref.sequence)
        by_key = best.get(ref.namespace_id)
        if by_key is None:
            by_key = best[ref.namespace_id] = {}
        rival = by_key.get(ref.key)
        if holdings.shelves[ref.tier].find(ref) is not None or rival == found:
            continue
        loser: RecoveredBlock | None = found
        if holdings.tree.find(ref.namespace_id, ref.key) is None and (
            rival is None or _merit(found) > _merit(rival)
        ):
            by_key[ref.key], loser = found, rival
        if loser is not None:
            holdings.condemn(holdings.shelves[loser.ref.tier].put(loser.ref))
            duplicates += 1
    holdings.skip_sequences(highest)
    return best, duplicates


def _lineage(by_key: _ByKey) -> list[RecoveredBlock]:
    """Take some block out, and all its ancestors that are still in; the oldest comes last."""
    _, found = by_key.popitem()
    lineage = [found]
    while (parent := by_key.pop(lineage[-1].ref.parent_key, None)) is not None:
        lineage.append(parent)
    return lineage


def _admit_in_turn(holdings: Holdings, lineage: list[RecoveredBlock], admitted: list[Block]) -> int:
    """Hold a lineage, the oldest first, up to one that can't be; return how many are orphans."""
    while lineage:
        block = _admit(holdings, lineage[-1])
        if block is None:
            break
        admitted.append(block)
        lineage.pop()
    for orphan in reversed(lineage):
        holdings.condemn(holdings.shelves[orphan.ref.tier].put(orphan.ref))
    return len(lineage)


def _merit(found: RecoveredBlock) -> tuple[bool, int]:
    return found.ref.tier is Tier.DRAM, found.ref.sequence


def _admit(holdings: Holdings, found: RecoveredBlock) -> Block | None:
    """Hold a recovered block; None without its parent, or if it does not fit its namespace."""
    ref = found.ref
    if ref.parent_key and holdings.tree.find(ref.namespace_id, ref.parent_key) is None:
        return None
    try:
        holdings.tree.check(found.spec)
    except BlockSizeError:
        return None
    if ref.size_bytes != found.spec.block_bytes:
        return None
    copy = holdings.shelves[found.ref.tier].put(found.ref)
    return holdings.admit(found.spec, copy)


def _rank(holdings: Holdings, admitted: list[Block]) -> None:
    """Rank blocks by the newest copy that hangs on them: a parent is never colder (see `heat`)."""
    newest: dict[Block, int] = {block: block.copy.ref.sequence for block in admitted}
    admitted.reverse()  # children before parents
    for block in admitted:
        if block.parent in newest:
            newest[block.parent] = max(newest[block.parent], newest[block])
    # Blocks of equal rank lie on one path, and sorting leaves their order as it is.
    holdings.policy.warmed(sorted(admitted, key=newest.__getitem__))
