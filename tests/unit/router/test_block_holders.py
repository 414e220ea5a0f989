"""router/block_holders.py: what holdings have, and the hand that takes it away."""

import pytest

from hearthkv.core.tier import Tier
from router.block_holders import BlockHolders

A, B, C = 1, 2, 4
NAME, OTHER = (b"n" * 16, 4), (b"o" * 16, 4)
KEYS = [number.to_bytes(4) for number in range(20)]


def held(holders: BlockHolders, bit: int, name=NAME) -> list[bytes]:
    return [key for key in KEYS if holders.has(bit, name, key)]


def test_what_was_put_is_there_and_is_counted():
    holders = BlockHolders()
    holders.put(A, NAME, KEYS[:10], Tier.DRAM)
    holders.put(B, NAME, KEYS[5:15], Tier.SSD)
    holders.put(B, OTHER, KEYS[:2], Tier.SSD)
    assert held(holders, A) == KEYS[:10]
    assert held(holders, B) == KEYS[5:15]
    assert held(holders, B, OTHER) == KEYS[:2]
    assert (holders.keys, holders.keys_of(A), holders.keys_of(B), holders.keys_of(C)) == (
        *(22, 10, 12),
        0,
    )


def test_a_block_that_is_put_again_moves_to_its_new_tier():
    holders = BlockHolders()
    holders.put(A, NAME, KEYS, Tier.DRAM)
    holders.put(A, NAME, [*KEYS[:5], *KEYS[:5]], Tier.SSD)
    assert holders.tiers_of(A, NAME) == [Tier.DRAM, Tier.SSD]
    holders.put(A, NAME, KEYS, Tier.SSD)
    assert holders.tiers_of(A, NAME) == [Tier.SSD]
    assert holders.keys == 20


def test_what_was_removed_is_gone_and_the_rest_is_no_matter():
    holders = BlockHolders()
    holders.put(A, NAME, KEYS[:10], Tier.DRAM)
    holders.put(B, NAME, KEYS[:1], Tier.DRAM)
    holders.remove(A, NAME, [*KEYS[:5], *KEYS[:5], KEYS[19]])
    holders.remove(A, OTHER, KEYS)
    holders.remove(C, NAME, KEYS)
    assert held(holders, A) == KEYS[5:10]
    assert held(holders, B) == KEYS[:1]
    assert holders.keys == 6


def test_a_table_without_blocks_is_not_kept():
    holders = BlockHolders()
    holders.put(A, NAME, KEYS, Tier.HBM)
    holders.put(A, OTHER, (), Tier.HBM)
    assert list(holders.tables) == [NAME]
    holders.remove(A, NAME, KEYS)
    assert holders.tables == {}
    assert holders.tiers_of(A, NAME) == []
    assert (holders.keys, len(holders.states)) == (0, 1)


def test_the_hand_takes_the_last_blocks_first_and_goes_on_where_it_was():
    holders = BlockHolders()
    holders.put(A, NAME, KEYS, Tier.DRAM)
    assert holders.turn_hand(A, 100, 5) == 5
    assert held(holders, A) == KEYS[:15]
    assert holders.turn_hand(A, 4, 100) == 4
    assert held(holders, A) == KEYS[:11]


def test_the_hand_takes_from_those_that_it_is_told_and_from_nobody_else():
    holders = BlockHolders()
    holders.put(A, NAME, KEYS[:10], Tier.DRAM)
    holders.put(B, NAME, KEYS[5:15], Tier.SSD)
    holders.put(C, NAME, KEYS[8:20], Tier.SSD)
    assert holders.turn_hand(A | C, 21, 100) == 22
    assert held(holders, A) == held(holders, C) == []
    assert held(holders, B) == KEYS[5:15]


@pytest.mark.parametrize("blocks", [1, 2, 7, 30])
def test_the_hand_comes_by_everything_however_small_its_steps(blocks):
    holders = BlockHolders()
    for bit in (A, B):
        holders.put(bit, NAME, KEYS, Tier.DRAM)
        holders.put(bit, OTHER, KEYS[:3], Tier.DRAM)
    steps = 0
    while holders.keys_of(A):
        assert holders.turn_hand(A, blocks, 1000) <= blocks
        steps += 1
    assert steps <= 60 // blocks + 2
    assert (holders.keys, holders.keys_of(B)) == (23, 23)


def test_the_hand_stops_where_there_is_nothing():
    holders = BlockHolders()
    assert holders.turn_hand(A, 1000, 1000) == 0
    holders.put(A, NAME, KEYS, Tier.DRAM)
    assert holders.turn_hand(B, 1000, 1000) == 0
    assert holders.turn_hand(A, 1000, 1000) == 20
    assert holders.turn_hand(A, 1000, 1000) == 0


def test_the_hand_does_not_mind_that_a_table_goes_and_comes_again():
    holders = BlockHolders()
    holders.put(A, NAME, KEYS, Tier.DRAM)
    holders.put(A, OTHER, KEYS, Tier.DRAM)
    holders.turn_hand(B, 5, 1)  # it is on its way through the last table now
    holders.remove(A, OTHER, KEYS)
    assert holders.turn_hand(A, 3, 100) == 2
    holders.turn_hand(B, 10, 1)
    holders.remove(A, NAME, KEYS)
    holders.put(A, NAME, KEYS[:3], Tier.DRAM)
    assert holders.turn_hand(A, 20, 100) == 3
