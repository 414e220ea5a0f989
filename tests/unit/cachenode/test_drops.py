"""Forgetting on request or after a loss."""

from hearthkv.core.block_io import DropBlocks, DropNamespace, DropSession, PinQuery
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier
from tests.unit.cachenode.catalog_kit import (
    NAMESPACE_ID,
    erase,
    keys,
    new_catalog,
    settle,
    ticket,
    tiers,
    used_blocks,
    write,
)

DROP_X = DropSession(SessionId("x"))


def test_i2_dropping_a_block_drops_all_that_hang_on_it_each_once():
    catalog = new_catalog()
    write(catalog, 1, 2, 3)
    write(catalog, 4, after=2)
    assert catalog.drop(DropBlocks(NAMESPACE_ID, keys(2, 3, 8))) == 3
    assert tiers(catalog, 1, 2, 3, 4) == "d---"
    erase(catalog)
    assert used_blocks(catalog) == (1, 0)


def test_a_dropped_namespace_is_empty_and_unknown():
    catalog = new_catalog()
    write(catalog, 1, 2)
    write(catalog, 3)
    assert catalog.drop(DropNamespace(NAMESPACE_ID)) == 3
    assert catalog.namespaces() == ()
    assert catalog.drop(DropNamespace(NAMESPACE_ID)) == 0


def test_a_dropped_session_leaves_what_another_session_uses():
    catalog = new_catalog()
    write(catalog, 1, 2, 3, session="x")
    write(catalog, 1, 2, session="y")
    write(catalog, 5, after=1, session="x")
    assert catalog.drop(DROP_X) == 2
    assert tiers(catalog, 1, 2, 3, 5) == "dd--"
    assert catalog.drop(DropSession(SessionId("y"))) == 2


def test_a_dropped_session_leaves_what_no_session_claims_beyond_its_prompts():
    catalog = new_catalog()
    write(catalog, 1, 2, session="x")
    write(catalog, 3, after=2)
    assert catalog.drop(DROP_X) == 0
    assert tiers(catalog, 1, 2, 3) == "ddd"


def test_a_dropped_session_leaves_what_is_pinned():
    catalog = new_catalog()
    write(catalog, 1, 2, 3, session="x")
    catalog.pin(PinQuery(NAMESPACE_ID, keys(1, 2), ttl_s=5), pin_id="p", now=0)
    assert catalog.drop(DROP_X) == 1
    assert tiers(catalog, 1, 2, 3) == "dd-"


def test_a_dropped_session_leaves_what_a_write_builds_upon():
    catalog = new_catalog()
    write(catalog, 1, 2, session="x")
    ticket(catalog, 3, parent=2)
    assert catalog.drop(DROP_X) == 0


def test_a_dropped_session_with_a_prompt_inside_another_drops_both():
    catalog = new_catalog()
    write(catalog, 1, 2, 3, session="x")
    catalog.finish_read(catalog.plan_read(NAMESPACE_ID, keys(1), SessionId("x")))
    assert catalog.drop(DROP_X) == 3
    assert catalog.drop(DROP_X) == 0


def test_what_a_session_only_read_is_its_own_too():
    catalog = new_catalog()
    write(catalog, 1, 2)
    catalog.plan_read(NAMESPACE_ID, keys(1, 2), SessionId("x"))
    assert catalog.drop(DROP_X) == 2


def test_i2_a_lost_block_takes_its_descendants_with_it():
    catalog = new_catalog()
    write(catalog, 1, 2, 3)
    plan = catalog.plan_read(NAMESPACE_ID, keys(1, 2, 3))
    assert catalog.lose(plan.refs[1]) == 2
    assert catalog.lose(plan.refs[1]) == 0
    catalog.finish_read(plan)
    assert tiers(catalog, 1, 2, 3) == "d--"


def test_a_copy_that_was_lost_after_the_block_moved_costs_nothing():
    catalog = new_catalog(dram=1, ssd=2, threshold=0.5)
    write(catalog, 1)
    plan = catalog.plan_read(NAMESPACE_ID, keys(1))
    catalog.finish_read(plan)
    settle(catalog)
    assert tiers(catalog, 1) == "s"
    assert catalog.lose(plan.refs[0]) == 0
    assert tiers(catalog, 1) == "s"


def test_i4_an_emptied_store_costs_its_blocks_and_what_hangs_on_them():
    catalog = new_catalog(dram=2)
    catalog.set_trouble(Tier.DRAM, "away")
    write(catalog, 1)
    write(catalog, 8)
    catalog.set_trouble(Tier.DRAM, "")
    write(catalog, 2, 3, 4, after=1)
    assert tiers(catalog, 8, 1, 2, 3, 4) == "ssdds"
    assert catalog.forget_tier(Tier.DRAM) == 3
    assert tiers(catalog, 8, 1, 2, 3, 4) == "ss---"
    assert used_blocks(catalog) == (0, 3)
    erase(catalog)
    assert used_blocks(catalog) == (0, 2)
