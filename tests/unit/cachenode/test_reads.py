"""Reads from plan to finish."""

import pytest

from hearthkv.core.block_io import DropBlocks, ReadEnd
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.tier import Tier, TierCounts
from tests.unit.cachenode.catalog_kit import (
    NAMESPACE_ID,
    erase,
    key,
    keys,
    new_catalog,
    settle,
    tiers,
    used_blocks,
    write,
)


def test_a_read_gives_the_longest_held_run_in_order():
    catalog = new_catalog()
    write(catalog, 1, 2, 3)
    plan = catalog.plan_read(NAMESPACE_ID, keys(1, 2, 3, 4))
    assert [ref.key for ref in plan.refs] == list(keys(1, 2, 3))
    assert plan.end is ReadEnd.MISS


def test_a_read_of_what_is_held_is_complete():
    catalog = new_catalog()
    write(catalog, 1, 2)
    assert catalog.plan_read(NAMESPACE_ID, keys(1, 2)).end is ReadEnd.COMPLETE
    assert catalog.plan_read(NAMESPACE_ID, PackedKeys(b"")).end is ReadEnd.COMPLETE


def test_a_read_may_begin_in_the_middle_of_a_prompt():
    catalog = new_catalog()
    write(catalog, 1, 2, 3)
    plan = catalog.plan_read(NAMESPACE_ID, keys(2, 3))
    assert [ref.key for ref in plan.refs] == list(keys(2, 3))


def test_an_unknown_namespace_is_a_miss():
    plan = new_catalog().plan_read(b"?" * 16, keys(1))
    assert plan.refs == ()
    assert plan.end is ReadEnd.MISS


def test_a_tier_in_trouble_ends_a_read_and_a_match():
    catalog = new_catalog(dram=1)
    write(catalog, 1, 2, 3)
    assert tiers(catalog, 1, 2, 3) == "dss"
    catalog.set_trouble(Tier.SSD, "failing")
    plan = catalog.plan_read(NAMESPACE_ID, keys(1, 2, 3))
    assert [ref.key for ref in plan.refs] == [key(1)]
    assert plan.end is ReadEnd.UNAVAILABLE
    assert catalog.match(NAMESPACE_ID, keys(1, 2, 3)) == TierCounts(dram=1)


def test_a_tier_that_is_full_is_read():
    catalog = new_catalog()
    write(catalog, 1)
    catalog.set_full(Tier.DRAM, "out of memory")
    assert catalog.plan_read(NAMESPACE_ID, keys(1)).end is ReadEnd.COMPLETE


def test_a_match_counts_the_longest_prefix_by_tier():
    catalog = new_catalog(dram=2)
    write(catalog, 1, 2, 3)
    assert catalog.match(NAMESPACE_ID, keys(1, 2, 3, 4)) == TierCounts(dram=2, ssd=1)
    assert catalog.match(NAMESPACE_ID, keys(5, 1)) == TierCounts()


def test_a_block_that_is_dropped_while_it_is_read_is_erased_when_the_last_reader_is_done():
    catalog = new_catalog()
    write(catalog, 1)
    plans = [catalog.plan_read(NAMESPACE_ID, keys(1)) for _ in range(2)]
    catalog.drop(DropBlocks(NAMESPACE_ID, keys(1)))
    assert catalog.match(NAMESPACE_ID, keys(1)).total == 0
    for plan in plans:
        assert catalog.plan_erasures() == ()
        assert used_blocks(catalog) == (1, 0)
        catalog.finish_read(plan)
    assert erase(catalog) == plans[0].refs
    assert used_blocks(catalog) == (0, 0)


def test_a_rewrite_of_a_block_that_is_read_and_dropped_outlives_the_erasure():
    catalog = new_catalog()
    write(catalog, 1)
    plan = catalog.plan_read(NAMESPACE_ID, keys(1))
    catalog.drop(DropBlocks(NAMESPACE_ID, keys(1)))
    write(catalog, 1)
    catalog.finish_read(plan)
    assert erase(catalog) == plan.refs
    assert tiers(catalog, 1) == "d"
    assert used_blocks(catalog) == (1, 0)


def test_a_finished_read_has_heated_its_path_head_first():
    catalog = new_catalog()
    write(catalog, 1, 2, 3)
    write(catalog, 9)
    catalog.finish_read(catalog.plan_read(NAMESPACE_ID, keys(2, 3)))
    ranked = catalog._holdings.policy.victims(Tier.DRAM, 9)
    assert [block.key for block in ranked] == list(keys(9, 3, 2, 1))


def test_a_finished_read_heats_what_is_left_of_it():
    catalog = new_catalog()
    write(catalog, 1, 2)
    write(catalog, 9)
    plan = catalog.plan_read(NAMESPACE_ID, keys(1, 2))
    catalog.drop(DropBlocks(NAMESPACE_ID, keys(2)))
    catalog.finish_read(plan)
    ranked = catalog._holdings.policy.victims(Tier.DRAM, 9)
    assert [block.key for block in ranked] == list(keys(9, 1))


def test_a_read_is_finished_once():
    catalog = new_catalog()
    plan = catalog.plan_read(NAMESPACE_ID, keys(1))
    catalog.finish_read(plan)
    with pytest.raises(KeyError):
        catalog.finish_read(plan)


def test_blocks_that_are_read_are_neither_moved_nor_evicted():
    catalog = new_catalog(dram=2, ssd=2, threshold=0.5)
    write(catalog, 1, 2)
    plan = catalog.plan_read(NAMESPACE_ID, keys(1, 2))
    assert settle(catalog) == 0
    assert tiers(catalog, 1, 2) == "dd"
    catalog.finish_read(plan)
    settle(catalog)
    assert tiers(catalog, 1, 2) == "ds"
