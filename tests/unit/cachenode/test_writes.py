"""Writes from plan to commit."""

import pytest

from cachenode.plans import WriteTicket
from hearthkv.core.block_io import DropBlocks, DropNamespace, WriteStatus
from hearthkv.core.errors import BlockSizeError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier
from tests.unit.cachenode.catalog_kit import (
    BLOCK_BYTES,
    NAMESPACE_ID,
    SPEC,
    erase,
    key,
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


def test_a_block_is_held_from_its_commit_on():
    catalog = new_catalog()
    planned = ticket(catalog, 1)
    assert tiers(catalog, 1) == "-"
    assert reserved_blocks(catalog) == (1, 0)
    assert catalog.commit_write(planned) is WriteStatus.STORED
    assert tiers(catalog, 1) == "d"
    assert (used_blocks(catalog), reserved_blocks(catalog)) == ((1, 0), (0, 0))


def test_a_write_goes_to_dram_then_to_the_ssd_then_nowhere():
    catalog = new_catalog(dram=1, ssd=1)
    planned = [plan(catalog, number) for number in (1, 2, 3)]
    assert [p.target.tier for p in planned[:2]] == [Tier.DRAM, Tier.SSD]
    assert planned[2] is WriteStatus.NO_ROOM


@pytest.mark.parametrize(
    ("down", "expected"),
    [
        ((Tier.DRAM,), Tier.SSD),
        ((Tier.SSD,), Tier.DRAM),
        ((Tier.DRAM, Tier.SSD), WriteStatus.UNAVAILABLE),
    ],
)
def test_a_tier_in_trouble_takes_no_write(down: tuple[Tier, ...], expected: Tier | WriteStatus):
    catalog = new_catalog()
    for tier in down:
        catalog.set_trouble(tier, "away")
    planned = plan(catalog, 1)
    assert expected == (planned.target.tier if isinstance(planned, WriteTicket) else planned)


def test_a_tier_that_its_store_calls_full_takes_no_write():
    catalog = new_catalog(ssd=0)
    catalog.set_full(Tier.DRAM, "out of memory")
    assert plan(catalog, 1) is WriteStatus.UNAVAILABLE
    assert catalog.usage()[0].trouble == "out of memory"
    catalog.set_full(Tier.DRAM, "")
    assert isinstance(plan(catalog, 1), WriteTicket)


def test_a_cache_that_is_switched_off_has_no_room():
    assert plan(new_catalog(dram=0, ssd=0), 1) is WriteStatus.NO_ROOM


def test_i2_a_block_without_its_parent_is_refused():
    assert plan(new_catalog(), 2, parent=1) is WriteStatus.PARENT_MISSING


def test_a_stream_may_have_parent_and_child_under_way():
    catalog = new_catalog()
    first, second = ticket(catalog, 1), ticket(catalog, 2, parent=1)
    assert catalog.commit_write(first) is WriteStatus.STORED
    assert catalog.commit_write(second) is WriteStatus.STORED


@pytest.mark.parametrize("end", ["abort_write", "cancel_write"])
def test_i2_a_child_is_refused_at_its_commit_if_the_parents_write_failed(end: str):
    catalog = new_catalog()
    first, second = ticket(catalog, 1), ticket(catalog, 2, parent=1)
    getattr(catalog, end)(first)
    assert catalog.commit_write(second) is WriteStatus.PARENT_MISSING
    assert second.target in erase(catalog)
    assert used_blocks(catalog) == (0, 0)


def test_i2_a_child_is_refused_at_its_commit_if_the_parent_was_dropped():
    catalog = new_catalog()
    write(catalog, 1)
    planned = ticket(catalog, 2, parent=1)
    catalog.drop(DropBlocks(NAMESPACE_ID, keys(1)))
    assert catalog.commit_write(planned) is WriteStatus.PARENT_MISSING
    assert tiers(catalog, 1, 2) == "--"


@pytest.mark.parametrize("is_held", [True, False], ids=["held", "under-way-itself"])
def test_a_parent_is_not_evicted_under_a_write(is_held: bool):
    catalog = new_catalog(dram=2, ssd=0)
    parent = ticket(catalog, 1)
    if is_held:
        catalog.commit_write(parent)
    child = ticket(catalog, 2, parent=1)
    if not is_held:
        catalog.commit_write(parent)
    assert plan(catalog, 9) is WriteStatus.NO_ROOM
    assert settle(catalog) == 0
    assert catalog.commit_write(child) is WriteStatus.STORED
    assert settle(catalog) == 1


@pytest.mark.parametrize("end", ["commit_write", "abort_write", "cancel_write"])
def test_a_write_that_ended_keeps_no_parent(end: str):
    catalog = new_catalog()
    parents = [ticket(catalog, 1), ticket(catalog, 1)]
    children = [ticket(catalog, number, parent=1) for number in (2, 3)]
    getattr(catalog, end)(children[0])
    catalog.commit_write(parents[0])
    catalog.commit_write(parents[1])
    assert catalog._tree.find(NAMESPACE_ID, key(1)).pending_children == 1
    getattr(catalog, end)(children[1])
    assert catalog._tree.find(NAMESPACE_ID, key(1)).pending_children == 0


def test_a_held_block_is_not_written_again():
    catalog = new_catalog()
    write(catalog, 1)
    assert plan(catalog, 1) is WriteStatus.ALREADY_HELD


def test_of_two_writes_of_a_block_the_first_commit_wins_and_the_other_copy_is_erased():
    catalog = new_catalog()
    slow, quick = ticket(catalog, 1), ticket(catalog, 1)
    assert catalog.commit_write(quick) is WriteStatus.STORED
    assert catalog.commit_write(slow) is WriteStatus.ALREADY_HELD
    assert erase(catalog) == (slow.target,)
    assert tiers(catalog, 1) == "d"
    assert used_blocks(catalog) == (1, 0)


def test_of_two_writes_of_a_block_one_may_fail():
    catalog = new_catalog()
    failing, other = ticket(catalog, 1), ticket(catalog, 1)
    catalog.abort_write(failing)
    child = ticket(catalog, 2, parent=1)
    assert catalog.commit_write(other) is WriteStatus.STORED
    assert catalog.commit_write(child) is WriteStatus.STORED


def test_i3_an_aborted_write_is_counted_until_it_is_erased():
    catalog = new_catalog(dram=1, ssd=0)
    planned = ticket(catalog, 1)
    catalog.abort_write(planned)
    assert plan(catalog, 1) is WriteStatus.NO_ROOM
    assert erase(catalog) == (planned.target,)
    assert isinstance(plan(catalog, 1), WriteTicket)


def test_a_cancelled_write_is_free_at_once():
    catalog = new_catalog(dram=1, ssd=0)
    catalog.cancel_write(ticket(catalog, 1))
    assert catalog.plan_erasures() == ()
    assert isinstance(plan(catalog, 1), WriteTicket)


def test_a_write_into_a_store_that_was_emptied_meanwhile_is_not_acknowledged():
    catalog = new_catalog()
    planned = ticket(catalog, 1)
    catalog.forget_tier(Tier.DRAM)
    assert catalog.commit_write(planned) is WriteStatus.UNAVAILABLE
    assert tiers(catalog, 1) == "-"
    assert erase(catalog) == (planned.target,)


def test_a_late_erasure_does_not_name_the_copy_that_was_written_after_it():
    catalog = new_catalog()
    write(catalog, 1)
    catalog.drop(DropBlocks(NAMESPACE_ID, keys(1)))
    late = catalog.plan_erasures()
    rewrite = ticket(catalog, 1)
    assert catalog.commit_write(rewrite) is WriteStatus.STORED
    assert rewrite.target not in late
    catalog.commit_erase(late)
    assert tiers(catalog, 1) == "d"
    assert used_blocks(catalog) == (1, 0)


def test_a_late_erasure_does_not_name_a_rewrite_in_the_other_tier():
    catalog = new_catalog()
    write(catalog, 1)
    catalog.drop(DropBlocks(NAMESPACE_ID, keys(1)))
    late = catalog.plan_erasures()
    catalog.set_trouble(Tier.DRAM, "away")
    write(catalog, 1)
    catalog.commit_erase(late)
    assert tiers(catalog, 1) == "s"
    assert used_blocks(catalog) == (0, 1)


def test_a_payload_of_another_size_is_refused_with_both_sizes():
    with pytest.raises(BlockSizeError, match="block is 91 bytes, the namespace's blocks have 90"):
        new_catalog().plan_write(SPEC, key=key(1), parent_key=b"", size_bytes=91, checksum=1)


def test_a_namespace_of_another_size_is_refused_with_both_sizes():
    catalog = new_catalog()
    write(catalog, 1)
    other = NamespaceSpec(NAMESPACE_ID, 16, BLOCK_BYTES + 1)
    with pytest.raises(BlockSizeError, match="block_bytes is 91, the namespace's blocks have 90"):
        catalog.plan_write(other, key=key(2), parent_key=b"", size_bytes=91, checksum=1)


def test_a_namespace_that_was_dropped_under_a_write_keeps_its_sizes():
    catalog = new_catalog()
    write(catalog, 1)
    planned = ticket(catalog, 9)
    catalog.drop(DropNamespace(NAMESPACE_ID))
    with pytest.raises(BlockSizeError):
        catalog.check_namespace(NamespaceSpec(NAMESPACE_ID, 16, BLOCK_BYTES + 1))
    assert catalog.commit_write(planned) is WriteStatus.STORED
