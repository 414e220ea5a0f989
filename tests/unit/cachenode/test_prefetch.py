"""Lifting from the SSD to DRAM."""

import pytest

from cachenode import prefetch
from cachenode.catalog import Catalog
from hearthkv.core.block_io import DropBlocks
from hearthkv.core.tier import Tier
from tests.unit.cachenode.catalog_kit import (
    NAMESPACE_ID,
    keys,
    new_catalog,
    settle,
    tiers,
    used_blocks,
    write,
)


def on_ssd(*numbers: int, dram: int = 10, ssd: int = 10, threshold: float = 0.8) -> Catalog:
    """A catalog with a chain of blocks on its SSD."""
    catalog = new_catalog(dram=dram, ssd=ssd, threshold=threshold)
    catalog.set_trouble(Tier.DRAM, "away")
    write(catalog, *numbers)
    catalog.set_trouble(Tier.DRAM, "")
    return catalog


def test_the_blocks_of_a_prefix_are_lifted_head_first():
    catalog = on_ssd(1, 2, 3)
    assert catalog.request_prefetch(NAMESPACE_ID, keys(1, 2, 9)) == 2
    moves = catalog.plan_promotions()
    assert [move.source.key for move in moves] == list(keys(1, 2))
    assert all(catalog.commit_move(move) for move in moves)
    assert tiers(catalog, 1, 2, 3) == "dds"


def test_nothing_is_lifted_that_is_in_dram_or_unknown():
    catalog = new_catalog()
    write(catalog, 1)
    assert catalog.request_prefetch(NAMESPACE_ID, keys(1)) == 0
    assert catalog.request_prefetch(b"?" * 16, keys(1)) == 0
    assert catalog.plan_promotions() == ()


def test_a_second_request_joins_the_first():
    catalog = on_ssd(1, 2)
    assert catalog.request_prefetch(NAMESPACE_ID, keys(1, 2)) == 2
    assert catalog.request_prefetch(NAMESPACE_ID, keys(1, 2)) == 2
    moves = catalog.plan_promotions()
    assert len(moves) == 2
    assert catalog.request_prefetch(NAMESPACE_ID, keys(1, 2)) == 2
    assert catalog.plan_promotions() == ()


def test_a_plan_has_a_most_of_moves():
    catalog = on_ssd(1, 2, 3)
    catalog.request_prefetch(NAMESPACE_ID, keys(1, 2, 3))
    assert [len(catalog.plan_promotions(moves_max=2)) for _ in range(3)] == [2, 1, 0]


def test_no_more_is_queued_than_dram_could_hold_below_its_threshold():
    catalog = on_ssd(1, 2, 3, 4, dram=4, threshold=0.8)
    assert catalog.request_prefetch(NAMESPACE_ID, keys(1, 2, 3, 4)) == 3


def test_the_queue_has_a_most_of_blocks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prefetch, "QUEUE_BLOCKS_MAX", 1)
    catalog = on_ssd(1, 2)
    assert catalog.request_prefetch(NAMESPACE_ID, keys(1, 2)) == 1


@pytest.mark.parametrize("tier", [Tier.DRAM, Tier.SSD])
def test_nothing_is_lifted_while_a_tier_is_in_trouble(tier: Tier):
    catalog = on_ssd(1, 2)
    catalog.request_prefetch(NAMESPACE_ID, keys(1))
    catalog.set_trouble(tier, "away")
    assert catalog.request_prefetch(NAMESPACE_ID, keys(1, 2)) == 0
    assert catalog.plan_promotions() == ()
    catalog.set_trouble(tier, "")
    assert len(catalog.plan_promotions()) == 1


def test_what_was_dropped_while_it_was_queued_is_passed_over():
    catalog = on_ssd(1, 2)
    catalog.request_prefetch(NAMESPACE_ID, keys(1, 2))
    catalog.drop(DropBlocks(NAMESPACE_ID, keys(2)))
    assert [move.source.key for move in catalog.plan_promotions()] == list(keys(1))


def test_lifting_leaves_half_the_slack_to_writes_and_swaps_with_the_coldest():
    catalog = on_ssd(1, 2, dram=5, ssd=5, threshold=0.6)
    write(catalog, 7, 8, 9)
    catalog.request_prefetch(NAMESPACE_ID, keys(1, 2))
    assert len(catalog.plan_promotions()) == 1
    assert catalog.plan_promotions() == ()
    for move in list(catalog._tiering._moves):
        catalog.commit_move(move)
    settle(catalog)
    assert tiers(catalog, 1, 2, 7, 8, 9) == "dddss"
    assert used_blocks(catalog) == (3, 2)
