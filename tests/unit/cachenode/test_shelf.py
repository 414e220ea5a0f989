"""One tier's copies and bytes: I3."""

import pytest

from cachenode.block import Copy, CopyState
from cachenode.plans import TierLimits
from cachenode.shelf import Shelf
from hearthkv.core.tier import Tier, TierUsage
from tests.unit.cachenode.catalog_kit import ref


@pytest.fixture
def shelf() -> Shelf:
    """Room for two blocks of 90 bytes in frames of 10."""
    return Shelf(Tier.DRAM, TierLimits(299, frame_bytes=10))


def reserved(shelf: Shelf, number: int) -> Copy:
    copy = shelf.reserve(ref(number))
    assert copy is not None
    return copy


def stored(shelf: Shelf, number: int) -> Copy:
    copy = reserved(shelf, number)
    shelf.settle(copy)
    return copy


def test_reserved_bytes_become_used_ones(shelf: Shelf):
    copy = reserved(shelf, 1)
    assert (shelf.used_bytes, shelf.reserved_bytes, shelf.room_bytes) == (0, 100, 199)
    assert shelf.find(copy.ref) is copy
    shelf.settle(copy)
    assert (shelf.used_bytes, shelf.reserved_bytes, shelf.room_bytes) == (100, 0, 199)
    assert shelf.usage() == TierUsage(Tier.DRAM, 100, 0, 299, 0, "")


def test_i3_no_copy_is_reserved_beyond_the_limit_and_the_wish_is_remembered(shelf: Shelf):
    reserved(shelf, 1)
    stored(shelf, 2)
    assert shelf.wanted_bytes == 0
    assert shelf.reserve(ref(3)) is None
    assert shelf.wanted_bytes == 100
    assert shelf.find(ref(3)) is None


def test_a_copy_that_never_fits_is_no_wish():
    shelf = Shelf(Tier.DRAM, TierLimits(99, frame_bytes=10))
    assert shelf.reserve(ref(1)) is None
    assert shelf.wanted_bytes == 0


def test_released_bytes_are_free_at_once(shelf: Shelf):
    copy = reserved(shelf, 1)
    shelf.release(copy)
    assert shelf.room_bytes == 299
    assert shelf.find(copy.ref) is None


def test_condemned_bytes_are_counted_until_the_erasure_is_confirmed(shelf: Shelf):
    copy = stored(shelf, 1)
    shelf.condemn(copy)
    assert (shelf.used_bytes, shelf.condemned_bytes) == (100, 100)
    assert shelf.plan_erasures(9) == [copy.ref]
    assert shelf.plan_erasures(9) == []
    assert shelf.used_bytes == 100
    shelf.commit_erase(copy.ref)
    assert (shelf.used_bytes, shelf.condemned_bytes) == (0, 0)


def test_a_condemned_reservation_may_have_bytes_and_is_erased(shelf: Shelf):
    copy = reserved(shelf, 1)
    shelf.condemn(copy)
    assert (shelf.used_bytes, shelf.reserved_bytes) == (100, 0)
    assert shelf.plan_erasures(9) == [copy.ref]


def test_a_copy_is_erased_only_when_its_last_reader_is_done(shelf: Shelf):
    copy = stored(shelf, 1)
    shelf.hold(copy)
    shelf.hold(copy)
    shelf.condemn(copy)
    assert shelf.plan_erasures(9) == []
    shelf.let_go(copy)
    assert shelf.plan_erasures(9) == []
    shelf.let_go(copy)
    assert shelf.plan_erasures(9) == [copy.ref]


def test_letting_go_of_a_stored_copy_erases_nothing(shelf: Shelf):
    copy = stored(shelf, 1)
    shelf.hold(copy)
    shelf.let_go(copy)
    assert shelf.plan_erasures(9) == []


def test_erasures_are_handed_out_oldest_first_and_in_bounded_batches(shelf: Shelf):
    first, second = stored(shelf, 1), stored(shelf, 2)
    shelf.condemn(second)
    shelf.condemn(first)
    assert shelf.plan_erasures(1) == [second.ref]
    assert shelf.plan_erasures(1) == [first.ref]


def test_a_failed_erasure_is_handed_out_again(shelf: Shelf):
    copy = stored(shelf, 1)
    shelf.condemn(copy)
    shelf.abort_erase(*shelf.plan_erasures(1))
    assert shelf.plan_erasures(1) == [copy.ref]


def test_a_store_in_trouble_is_asked_for_no_erasure_and_no_write(shelf: Shelf):
    copy = stored(shelf, 1)
    shelf.condemn(copy)
    assert shelf.is_usable
    shelf.trouble = "away"
    assert not shelf.is_usable
    assert shelf.plan_erasures(9) == []
    shelf.trouble = ""
    assert shelf.plan_erasures(9) == [copy.ref]


def test_a_shelf_without_a_limit_is_not_usable():
    assert not Shelf(Tier.SSD, TierLimits(0)).is_usable


def test_forgetting_frees_all_but_reservations_and_those_are_void(shelf: Shelf):
    kept, copy = reserved(shelf, 1), stored(shelf, 2)
    shelf.condemn(copy)
    shelf.forget()
    assert (shelf.used_bytes, shelf.reserved_bytes, shelf.condemned_bytes) == (0, 100, 0)
    assert kept.is_void
    assert copy.state is CopyState.GONE
    assert shelf.plan_erasures(9) == []


def test_what_ends_after_the_forgetting_changes_nothing(shelf: Shelf):
    read, erasing, failing = stored(shelf, 1), stored(shelf, 2), ref(3)
    shelf.hold(read)
    shelf.condemn(erasing)
    assert shelf.plan_erasures(1) == [erasing.ref]
    shelf.forget()
    shelf.condemn(read)
    shelf.let_go(read)
    shelf.commit_erase(erasing.ref)
    shelf.abort_erase(failing)
    assert shelf.usage() == TierUsage(Tier.DRAM, 0, 0, 299, 0, "")
    assert shelf.plan_erasures(9) == []


@pytest.mark.parametrize("is_erased", [True, False])
@pytest.mark.parametrize("is_orphan", [True, False])
def test_what_a_scan_finds_while_it_is_being_erased_is_counted_once(
    shelf: Shelf, is_erased: bool, is_orphan: bool
):
    copy = stored(shelf, 1)
    shelf.condemn(copy)
    assert shelf.plan_erasures(9) == [copy.ref]
    shelf.forget()
    found = shelf.put(copy.ref)
    if is_orphan:
        shelf.condemn(found)
    if is_erased:
        shelf.commit_erase(copy.ref)
    else:
        shelf.abort_erase(copy.ref)
    assert shelf.used_bytes == (0 if is_erased and is_orphan else 100)
    for again in shelf.plan_erasures(9):
        assert is_orphan
        shelf.commit_erase(again)
    assert found.state is (CopyState.GONE if is_orphan else CopyState.STORED)
    assert (shelf.used_bytes, shelf.condemned_bytes) == (0 if is_orphan else 100, 0)


def test_what_a_store_was_found_to_hold_is_counted_even_over_the_limit(shelf: Shelf):
    for number in range(1, 5):
        assert shelf.put(ref(number)).state is CopyState.STORED
    assert shelf.used_bytes == 400
    assert shelf.room_bytes == -101
    assert shelf.reserve(ref(5)) is None
