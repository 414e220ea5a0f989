"""Tree, shelves, ranks, marks and events change together."""

import pytest

from cachenode.block import CopyState
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier
from tests.unit.cachenode.catalog_kit import NAMESPACE_ID, hold, key, new_holdings


def reserve(holdings, number: int, tier: Tier = Tier.DRAM):
    return holdings.reserve(
        tier, namespace_id=NAMESPACE_ID, key=key(number), parent_key=b"", checksum=1, size_bytes=90
    )


def test_every_copy_has_a_sequence_of_its_own():
    holdings = new_holdings()
    sequences = [reserve(holdings, 1, tier).ref.sequence for tier in (Tier.DRAM, Tier.SSD)]
    holdings.skip_sequences(40)
    holdings.skip_sequences(7)
    sequences.append(reserve(holdings, 1).ref.sequence)
    assert sequences == [1, 2, 41]


def test_no_room_is_a_value():
    holdings = new_holdings(dram=1)
    assert reserve(holdings, 1) is not None
    assert reserve(holdings, 2) is None


def test_an_admitted_block_is_counted_ranked_and_told():
    holdings = new_holdings()
    subscription = holdings.events.subscribe()
    subscription.restart()
    block = hold(holdings, 1)
    assert holdings.shelves[Tier.DRAM].blocks == 1
    assert holdings.policy.victims(Tier.DRAM, 9) == [block]
    assert subscription.take().events[0].tier is Tier.DRAM


def test_a_relocated_block_leaves_its_old_copy_to_be_erased():
    holdings = new_holdings()
    block = hold(holdings, 1)
    old, new = block.copy, reserve(holdings, 1, Tier.SSD)
    holdings.shelf_of(new).settle(new)
    holdings.relocate(block, new)
    assert block.tier is Tier.SSD
    assert (holdings.shelves[Tier.DRAM].blocks, holdings.shelves[Tier.SSD].blocks) == (0, 1)
    assert old.state is CopyState.CONDEMNED
    assert holdings.policy.victims(Tier.DRAM, 9) == []
    assert holdings.policy.victims(Tier.SSD, 9) == [block]


def test_i2_a_removed_block_takes_its_descendants_with_it_each_once():
    holdings = new_holdings()
    subscription = holdings.events.subscribe()
    first = hold(holdings, 1)
    second, third = hold(holdings, 2, 1), hold(holdings, 3, 2)
    fork = hold(holdings, 4, 2, Tier.SSD)
    subscription.restart()
    assert holdings.remove(second) == 3
    assert [block.is_held for block in (first, second, third, fork)] == [True, False, False, False]
    told = [key for event in subscription.take().events for key in event.keys]
    assert sorted(told) == [key(2), key(3), key(4)]
    assert (holdings.shelves[Tier.DRAM].blocks, holdings.shelves[Tier.SSD].blocks) == (1, 0)
    assert len(holdings.shelves[Tier.DRAM].plan_erasures(9)) == 2
    assert len(holdings.shelves[Tier.SSD].plan_erasures(9)) == 1


def test_marks_of_removed_blocks_slide_to_what_is_left():
    holdings = new_holdings()
    first, second = hold(holdings, 1), hold(holdings, 2, 1)
    third = hold(holdings, 3, 2)
    holdings.pins.add("p", third, 5.0)
    holdings.tails.note(SessionId("x"), third)
    holdings.remove(second)
    assert holdings.pins.is_pinned(first)
    assert holdings.tails.is_tail(first)


def test_a_heated_path_is_hottest_at_its_head():
    holdings = new_holdings()
    first, other = hold(holdings, 1), hold(holdings, 9)
    second = hold(holdings, 2, 1)
    holdings.heat(second)
    assert holdings.policy.victims(Tier.DRAM, 9) == [other, second, first]


def test_only_an_idle_unpinned_leaf_may_leave():
    holdings = new_holdings()
    first, leaf = hold(holdings, 1), hold(holdings, 2, 1)
    assert not holdings.may_leave(first)
    assert holdings.may_leave(leaf)


@pytest.mark.parametrize("use", ["pending child", "move", "read", "pin"])
def test_a_leaf_in_use_may_not_leave(use: str):
    holdings = new_holdings()
    leaf = hold(holdings, 1)
    if use == "pending child":
        leaf.pending_children = 1
    elif use == "move":
        leaf.is_moving = True
    elif use == "read":
        leaf.copy.readers = 1
    else:
        holdings.pins.add("p", leaf, 5.0)
    assert not holdings.may_leave(leaf)


def test_copies_are_held_and_let_go_together():
    holdings = new_holdings()
    copies = [hold(holdings, number).copy for number in (1, 2, 3)]
    holdings.hold(copies)
    holdings.hold(copies[:1])
    assert [copy.readers for copy in copies] == [2, 1, 1]
    for copy in copies[1:]:
        holdings.condemn(copy)
    assert holdings.shelves[Tier.DRAM].plan_erasures(9) == []
    holdings.let_go(copies)
    assert [copy.readers for copy in copies] == [1, 0, 0]
    assert len(holdings.shelves[Tier.DRAM].plan_erasures(9)) == 2


def test_what_nobody_holds_can_not_be_let_go():
    holdings = new_holdings()
    with pytest.raises(AssertionError):
        holdings.let_go([hold(holdings, 1).copy])
