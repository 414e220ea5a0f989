"""Recovery of what the stores hold: I4."""

import random

import pytest

from cachenode.plans import RecoveredBlock, Restored
from hearthkv.core.block_io import DropBlocks
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier
from tests.unit.cachenode.catalog_kit import (
    NAMESPACE_ID,
    SPEC,
    erase,
    key,
    keys,
    new_catalog,
    ref,
    settle,
    ticket,
    tiers,
    used_blocks,
    write,
)

DRAM, SSD = Tier.DRAM, Tier.SSD


def found(*refs: BlockRef, spec: NamespaceSpec = SPEC) -> list[RecoveredBlock]:
    return [RecoveredBlock(spec, one) for one in refs]


@pytest.mark.parametrize("seed", range(5))
def test_i4_all_blocks_are_held_again_in_whatever_order_they_are_found(seed: int):
    catalog = new_catalog()
    copies = found(ref(1), ref(2, 1, tier=SSD), ref(3, 2), ref(4, 2, tier=SSD), ref(5))
    random.Random(seed).shuffle(copies)
    assert catalog.restore(copies) == Restored(blocks=5, orphans=0, duplicates=0)
    assert tiers(catalog, 1, 2, 3, 4, 5) == "dsdsd"
    assert used_blocks(catalog) == (3, 2)
    assert catalog.plan_erasures() == ()


def test_i4_of_two_copies_the_one_in_dram_is_kept_and_the_other_erased():
    catalog = new_catalog()
    older, newer = ref(1, tier=DRAM, sequence=1), ref(1, tier=SSD, sequence=2)
    assert catalog.restore(found(older, newer)) == Restored(1, 0, 1)
    assert tiers(catalog, 1) == "d"
    assert used_blocks(catalog) == (1, 1)
    assert erase(catalog) == (newer,)
    assert used_blocks(catalog) == (1, 0)


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_copies_in_one_tier_the_newer_is_kept(order: int):
    catalog = new_catalog()
    copies = found(ref(1, sequence=1), ref(1, sequence=2))[::order]
    assert catalog.restore(copies) == Restored(1, 0, 1)
    assert erase(catalog) == (ref(1, sequence=1),)


def test_a_copy_that_is_named_twice_is_one_copy():
    catalog = new_catalog()
    assert catalog.restore(found(ref(1), ref(1))) == Restored(1, 0, 0)
    assert used_blocks(catalog) == (1, 0)


def test_i2_a_block_without_an_ancestor_is_erased():
    catalog = new_catalog()
    orphans = ref(3, 2), ref(4, 3, tier=SSD)
    assert catalog.restore(found(ref(1), *orphans)) == Restored(1, 2, 0)
    assert tiers(catalog, 1, 3, 4) == "d--"
    assert used_blocks(catalog) == (2, 1)
    assert erase(catalog) == orphans
    assert used_blocks(catalog) == (1, 0)


def test_blocks_that_name_each_other_as_parents_are_orphans():
    catalog = new_catalog()
    assert catalog.restore(found(ref(1, 2), ref(2, 1), ref(3, 3))) == Restored(0, 3, 0)


@pytest.mark.parametrize(
    "spec", [NamespaceSpec(NAMESPACE_ID, 32, 90), NamespaceSpec(NAMESPACE_ID, 16, 91)]
)
def test_a_copy_that_does_not_fit_its_namespace_is_erased(spec: NamespaceSpec):
    catalog = new_catalog()
    copies = found(ref(1)) + found(ref(2, 1), spec=spec) + found(ref(3, 2))
    assert catalog.restore(copies) == Restored(1, 2, 0)
    assert erase(catalog) == (ref(2, 1), ref(3, 2))


def test_a_copy_of_another_size_than_its_own_namespace_says_is_erased():
    catalog = new_catalog()
    copies = found(ref(1), spec=NamespaceSpec(NAMESPACE_ID, 16, 91))
    assert catalog.restore(copies) == Restored(0, 1, 0)


def test_new_copies_are_numbered_above_all_that_were_found():
    catalog = new_catalog()
    catalog.restore(found(ref(1, sequence=41), ref(3, 2, sequence=70)))
    assert ticket(catalog, 8).target.sequence == 71


def test_what_was_written_last_is_hottest_and_no_parent_is_colder_than_its_child():
    catalog = new_catalog()
    catalog.restore(
        found(
            ref(1, sequence=1),
            ref(2, 1, sequence=2),
            ref(3, 2, sequence=9),
            ref(7, sequence=5),
            ref(8, 7, sequence=6),
        )
    )
    ranked = catalog._holdings.policy.victims(DRAM, 9)
    assert [block.key for block in ranked] == list(keys(8, 7, 3, 2, 1))


def test_a_store_that_answers_late_adds_what_is_new():
    catalog = new_catalog()
    catalog.restore(found(ref(1, tier=SSD)))
    write(catalog, 9)
    live = catalog._tree.find(NAMESPACE_ID, key(9)).copy.ref
    late = found(live, ref(1, sequence=77), ref(2, 1))
    assert catalog.restore(late) == Restored(blocks=1, orphans=0, duplicates=1)
    assert tiers(catalog, 1, 2, 9) == "sdd"
    assert erase(catalog) == (ref(1, sequence=77),)
    assert used_blocks(catalog) == (2, 1)


def test_a_copy_that_is_being_erased_does_not_come_back():
    catalog = new_catalog()
    catalog.restore(found(ref(1)))
    catalog.drop(DropBlocks(NAMESPACE_ID, keys(1)))
    assert catalog.restore(found(ref(1))) == Restored(0, 0, 0)
    erase(catalog)
    assert used_blocks(catalog) == (0, 0)


def test_i3_a_limit_that_was_lowered_is_kept_again_soon():
    catalog = new_catalog(dram=2, ssd=2, threshold=1.0)
    copies = [ref(1), *(ref(n, n - 1) for n in range(2, 6)), ref(6, 5, tier=SSD)]
    catalog.restore(found(*copies))
    assert used_blocks(catalog) == (5, 1)
    settle(catalog)
    assert used_blocks(catalog) == (2, 2)


def test_i3_a_lowered_limit_is_kept_where_all_that_is_over_it_has_children_elsewhere():
    catalog = new_catalog(dram=4, ssd=1, threshold=1.0)
    catalog.restore(found(ref(1, tier=SSD), ref(2, 1, tier=SSD), ref(3, 2)))
    assert settle(catalog) == 2
    assert tiers(catalog, 1, 2, 3) == "s--"
    assert used_blocks(catalog) == (0, 1)
