"""Lifting from the SSD to DRAM."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachenode import prefetch
from cachenode.catalog import Catalog
from hearthkv.core.block_io import DropBlocks
from hearthkv.core.tier import Tier
from tests.unit.cachenode.catalog_kit import (
    NAMESPACE_ID,
    erase,
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


def moves_until_settled(catalog: Catalog) -> tuple[int, int]:
    """Carry out all that is due; return how many blocks went up, and how many down."""
    up = down = 0
    while True:
        demoted, promoted = catalog.plan_demotions().moves, catalog.plan_promotions()
        for move in (*demoted, *promoted):
            assert catalog.commit_move(move)
        up += len(promoted)
        down += len(demoted)
        if not erase(catalog) and not demoted and not promoted:
            return up, down


def read(catalog: Catalog, numbers: list[int]) -> None:
    plan = catalog.plan_read(NAMESPACE_ID, keys(*numbers))
    assert len(plan.refs) == len(numbers)
    catalog.finish_read(plan)


def test_a_prompt_larger_than_dram_stays_where_it_is():
    prompt = list(range(1, 25))
    catalog = new_catalog(dram=10, ssd=40, threshold=0.8)
    for number in prompt:
        write(catalog, number, after=number - 1)
        moves_until_settled(catalog)
    for _ in range(4):
        assert catalog.request_prefetch(NAMESPACE_ID, keys(*prompt)) == 0
        assert moves_until_settled(catalog) == (0, 0)
        read(catalog, prompt)
    assert tiers(catalog, *prompt).count("d") == 8


def test_two_prompts_that_do_not_fit_both_change_places_once_a_turn():
    one, other = list(range(1, 7)), list(range(11, 17))
    catalog = new_catalog(dram=10, ssd=40, threshold=0.8)
    for prompt in (one, other):
        write(catalog, *prompt)
        moves_until_settled(catalog)
    for _ in range(4):
        for prompt in (one, other):
            catalog.request_prefetch(NAMESPACE_ID, keys(*prompt))
            up, down = moves_until_settled(catalog)
            assert up <= len(prompt)
            assert down <= up
            assert tiers(catalog, *prompt) == "dddddd"
            read(catalog, prompt)


@given(st.lists(st.integers(1, 14), min_size=1, max_size=5), st.data())
def test_a_turn_moves_no_block_more_than_once_each_way(lengths: list[int], data: st.DataObject):
    """The bound that docs/tiers.md states: up to two bytes moved per byte that is asked for."""
    catalog = new_catalog(dram=10, ssd=100, threshold=0.8)
    prompts = [
        list(range(100 * name + 1, 100 * name + 1 + length)) for name, length in enumerate(lengths)
    ]
    for prompt in prompts:
        for number in prompt:
            write(catalog, number, after=number - 1 if number > prompt[0] else 0)
            moves_until_settled(catalog)
    for prompt in data.draw(st.lists(st.sampled_from(prompts), max_size=12)):
        on_ssd_before = tiers(catalog, *prompt).count("s")
        in_dram_before = tiers(catalog, *prompt)
        catalog.request_prefetch(NAMESPACE_ID, keys(*prompt))
        up, down = moves_until_settled(catalog)
        assert down <= up <= on_ssd_before
        # What was in DRAM of the prompt is there still.
        after = tiers(catalog, *prompt)
        assert all(new == "d" for old, new in zip(in_dram_before, after, strict=True) if old == "d")
        read(catalog, prompt)
        assert moves_until_settled(catalog) == (0, 0)  # a read moves nothing
