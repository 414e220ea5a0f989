"""Build the holdings anew from what the stores were found to hold. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

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
    held: list[Block] = []
    orphans = 0
    for by_key in best.values():
        while by_key:
            lineage = _lineage(by_key)
            fitting = _fitting(holdings, lineage)
            held += _hold(holdings, lineage[:fitting])
            for orphan in lineage[fitting:]:
                holdings.condemn(holdings.shelves[orphan.ref.tier].put(orphan.ref))
            orphans += len(lineage) - fitting
    holdings.admit_ranked(_coldest_first(held))
    return Restored(len(held), orphans, duplicates)


def _best_copies(
    holdings: Holdings, recovered: Iterable[RecoveredBlock]
) -> tuple[dict[bytes, _ByKey], int]:
    """Choose one copy a block, by namespace and key, and condemn the others."""
    best: defaultdict[bytes, _ByKey] = defaultdict(dict)
    is_fresh = holdings.is_empty
    duplicates = 0
    highest = 0
    for found in recovered:
        ref = found.ref
        highest = max(highest, ref.sequence)
        by_key = best[ref.namespace_id]
        rival = by_key.get(ref.key)
        if is_fresh and rival is None:  # nearly all of them, when a node starts
            by_key[ref.key] = found
            continue
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
    """Take some block out, and all its ancestors that are still in; the oldest comes first."""
    _, found = by_key.popitem()
    lineage = [found]
    while (parent := by_key.pop(found.ref.parent_key, None)) is not None:
        lineage.append(parent)
        found = parent
    lineage.reverse()
    return lineage


def _merit(found: RecoveredBlock) -> tuple[bool, int]:
    return found.ref.tier is Tier.DRAM, found.ref.sequence


def _fitting(holdings: Holdings, lineage: Sequence[RecoveredBlock]) -> int:
    """Count the blocks up to one without a held parent, or that does not fit its namespace."""
    spec, oldest = lineage[0]
    if oldest.parent_key and holdings.tree.find(oldest.namespace_id, oldest.parent_key) is None:
        return 0
    try:
        holdings.tree.check(spec)
    except BlockSizeError:
        return 0
    for count, found in enumerate(lineage):
        if (found.spec is not spec and found.spec != spec) or (
            found.ref.size_bytes != spec.block_bytes
        ):
            return count
    return len(lineage)


def _hold(holdings: Holdings, lineage: Sequence[RecoveredBlock]) -> Sequence[Block]:
    """Hold blocks of which each is the parent of the next; their ranks come later."""
    if not lineage:
        return ()
    shelves = holdings.shelves
    copies = [shelves[ref.tier].put(ref) for _, ref in lineage]
    return holdings.tree.add_path(lineage[0].spec, copies)


def _coldest_first(held: Sequence[Block]) -> list[Block]:
    """
    Order blocks by the newest copy that hangs on them: a parent is never colder (see `heat`).

    Args:
        held: Parents before children.
    """
    newest = {block: block.copy.ref.sequence for block in held}
    children_first = held[::-1]
    for block in children_first:
        parent = block.parent
        if parent in newest and newest[parent] < newest[block]:
            newest[parent] = newest[block]
    # Blocks of equal rank lie on one path, and sorting leaves their order as it is.
    return sorted(children_first, key=newest.__getitem__)
