"""Moves between tiers, and evictions."""

import pytest

from cachenode import tiering
from cachenode.plans import Demotions
from hearthkv.core.block_io import DropBlocks, PinQuery, WriteStatus
from hearthkv.core.tier import Tier
from tests.unit.cachenode.catalog_kit import (
    NAMESPACE_ID,
    STORED_BYTES,
    erase,
    keys,
    new_catalog,
    plan,
    reserved_blocks,
    settle,
    ticket,
    tiers,
    used_blocks,
    write,
)


def test_below_the_threshold_nothing_moves():
    catalog = new_catalog(dram=4, ssd=4, threshold=0.75)
    write(catalog, 1, 2, 3)
    assert catalog.plan_demotions() == Demotions()


def test_above_the_threshold_the_coldest_move_down_tail_first():
    catalog = new_catalog(dram=6, ssd=4, threshold=0.5)
    write(catalog, 1, 2, 3)
    write(catalog, 7, 8)
    demotions = catalog.plan_demotions()
    assert [move.source.key for move in demotions.moves] == list(keys(3, 2))
    assert {move.target.tier for move in demotions.moves} == {Tier.SSD}
    assert tiers(catalog, 1, 2, 3, 7, 8) == "ddddd"
    settle(catalog)
    for move in demotions.moves:
        assert catalog.commit_move(move)
    assert tiers(catalog, 1, 2, 3, 7, 8) == "dssdd"


def test_i3_a_move_is_counted_in_both_tiers_until_its_source_is_erased():
    catalog = new_catalog(dram=1, ssd=2, threshold=0.5)
    write(catalog, 1)
    (move,) = catalog.plan_demotions().moves
    assert (used_blocks(catalog), reserved_blocks(catalog)) == ((1, 0), (0, 1))
    catalog.commit_move(move)
    assert (used_blocks(catalog), reserved_blocks(catalog)) == ((1, 1), (0, 0))
    assert erase(catalog) == (move.source,)
    assert used_blocks(catalog) == (0, 1)


def test_what_is_leaving_is_not_moved_twice():
    catalog = new_catalog(dram=4, ssd=4, threshold=0.5)
    write(catalog, 1, 2, 3)
    (move,) = catalog.plan_demotions().moves
    assert not catalog.plan_demotions()
    catalog.commit_move(move)
    assert not catalog.plan_demotions()


def test_a_plan_has_a_most_of_moves():
    catalog = new_catalog(dram=8, ssd=8, threshold=0.1)
    write(catalog, 1, 2, 3, 4)
    assert len(catalog.plan_demotions(moves_max=3).moves) == 3
    assert len(catalog.plan_demotions(moves_max=3).moves) == 1


def test_an_aborted_move_leaves_the_block_and_has_the_target_erased():
    catalog = new_catalog(dram=1, ssd=2, threshold=0.5)
    write(catalog, 1)
    (move,) = catalog.plan_demotions().moves
    catalog.abort_move(move)
    assert tiers(catalog, 1) == "d"
    assert erase(catalog) == (move.target,)
    assert used_blocks(catalog) == (1, 0)


def test_a_block_that_is_dropped_while_it_moves_stays_dropped():
    catalog = new_catalog(dram=1, ssd=2, threshold=0.5)
    write(catalog, 1)
    (move,) = catalog.plan_demotions().moves
    catalog.drop(DropBlocks(NAMESPACE_ID, keys(1)))
    assert catalog.plan_erasures() == ()
    assert not catalog.commit_move(move)
    assert set(erase(catalog)) == {move.source, move.target}
    assert used_blocks(catalog) == (0, 0)


def test_a_block_that_is_rewritten_while_it_moves_keeps_the_new_copy():
    catalog = new_catalog(dram=2, ssd=2, threshold=0.4)
    write(catalog, 1)
    (move,) = catalog.plan_demotions().moves
    catalog.drop(DropBlocks(NAMESPACE_ID, keys(1)))
    rewrite = ticket(catalog, 1)
    catalog.commit_write(rewrite)
    assert not catalog.commit_move(move)
    assert rewrite.target not in erase(catalog)
    assert tiers(catalog, 1) == "d"


def test_a_move_into_a_store_that_was_emptied_meanwhile_does_not_count():
    catalog = new_catalog(dram=1, ssd=2, threshold=0.5)
    write(catalog, 1)
    (move,) = catalog.plan_demotions().moves
    catalog.forget_tier(Tier.SSD)
    assert not catalog.commit_move(move)
    assert tiers(catalog, 1) == "d"
    assert erase(catalog) == (move.target,)


def test_i2_only_leaves_leave_the_cache_and_only_from_the_ssd():
    catalog = new_catalog(dram=2, ssd=2, threshold=0.5)
    write(catalog, 1, 2)
    settle(catalog)
    write(catalog, 7)
    settle(catalog)
    assert tiers(catalog, 1, 2, 7) == "s-d"


@pytest.mark.parametrize("cause", ["no limit", "trouble", "full"])
def test_dram_drops_its_coldest_leaves_where_the_ssd_takes_nothing(cause: str):
    catalog = new_catalog(dram=4, ssd=0 if cause == "no limit" else 4, threshold=0.5)
    if cause == "trouble":
        catalog.set_trouble(Tier.SSD, "failing")
    if cause == "full":
        catalog.set_full(Tier.SSD, "no space left")
    write(catalog, 1, 2)
    write(catalog, 7)
    assert settle(catalog) == 1
    assert tiers(catalog, 1, 2, 7) == "d-d"
    assert settle(catalog) == 0


def test_dram_drops_leaves_where_nothing_on_the_ssd_may_leave():
    catalog = new_catalog(dram=2, ssd=2, threshold=0.5)
    catalog.set_trouble(Tier.DRAM, "away")
    write(catalog, 1, 2)
    catalog.set_trouble(Tier.DRAM, "")
    catalog.pin(PinQuery(NAMESPACE_ID, keys(1, 2), ttl_s=9), pin_id="p", now=0)
    write(catalog, 7)
    write(catalog, 8)
    assert settle(catalog) == 1
    assert tiers(catalog, 1, 2, 7, 8) == "ss-d"


def test_dram_waits_for_the_ssd_to_erase_before_it_drops():
    catalog = new_catalog(dram=2, ssd=2, threshold=0.5)
    catalog.set_trouble(Tier.DRAM, "away")
    write(catalog, 1)
    write(catalog, 2)
    catalog.set_trouble(Tier.DRAM, "")
    write(catalog, 7, 8)
    assert catalog.plan_demotions() == Demotions(evicted_blocks=1)
    assert catalog.plan_demotions() == Demotions()
    assert tiers(catalog, 1, 2, 7, 8) == "-sdd"
    settle(catalog)
    assert tiers(catalog, 1, 2, 7, 8) == "--ds"


def test_a_dram_in_trouble_is_left_alone():
    catalog = new_catalog(dram=2, ssd=2, threshold=0.5)
    write(catalog, 1, 2)
    catalog.set_trouble(Tier.DRAM, "away")
    assert not catalog.plan_demotions()


def test_leaves_that_nobody_can_read_go_where_all_dram_blocks_have_children_there():
    catalog = new_catalog(dram=2, ssd=4, threshold=0.5)
    write(catalog, 1, 2, 3)
    assert tiers(catalog, 1, 2, 3) == "dds"
    catalog.set_trouble(Tier.SSD, "failing")
    assert catalog.plan_demotions() == Demotions(evicted_blocks=1)
    assert settle(catalog) == 1
    assert tiers(catalog, 1, 2, 3) == "d--"


def test_a_refused_write_makes_room_even_at_a_threshold_of_one():
    catalog = new_catalog(dram=1, ssd=1, threshold=1.0)
    write(catalog, 1)
    write(catalog, 2)
    assert plan(catalog, 3) is WriteStatus.NO_ROOM
    settle(catalog)
    assert tiers(catalog, 1, 2) == "s-"
    write(catalog, 3)
    assert tiers(catalog, 3) == "d"


def test_pinned_blocks_move_but_do_not_leave():
    catalog = new_catalog(dram=2, ssd=2, threshold=0.5)
    write(catalog, 1, 2)
    catalog.pin(PinQuery(NAMESPACE_ID, keys(1, 2), ttl_s=9), pin_id="p", now=0)
    settle(catalog)
    write(catalog, 7)
    settle(catalog)
    write(catalog, 8)
    settle(catalog)
    assert tiers(catalog, 1, 2) == "ss"
    catalog.unpin("p")


def test_a_passed_over_block_does_not_hide_those_behind_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiering, "VICTIMS_BATCH", 1)
    catalog = new_catalog(dram=0, ssd=8, threshold=0.9)
    write(catalog, 1)
    write(catalog, 2)
    catalog.pin(PinQuery(NAMESPACE_ID, keys(1), ttl_s=9), pin_id="p", now=0)
    write(catalog, 3, 4, 5, 6, 7, 8)
    assert settle(catalog) == 1
    assert tiers(catalog, 1, 2, 8) == "s-s"


def test_a_plan_has_a_most_of_evictions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiering, "EVICTIONS_MAX", 2)
    catalog = new_catalog(dram=0, ssd=8, threshold=0.5)
    for number in range(1, 9):
        write(catalog, number)
    assert catalog.plan_demotions() == Demotions(evicted_blocks=2)
    assert catalog.plan_demotions() == Demotions(evicted_blocks=2)
    assert catalog.plan_demotions() == Demotions()


def test_the_ceiling_is_the_threshold_of_the_limit():
    catalog = new_catalog(dram=10, ssd=0, threshold=0.85)
    assert catalog._tiering.ceiling_bytes(Tier.DRAM) == int(8.5 * STORED_BYTES)
    assert catalog._tiering.ceiling_bytes(Tier.SSD) == 0
