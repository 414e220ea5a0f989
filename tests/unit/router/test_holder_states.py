"""router/holder_states.py: numbers for who has a block in which tier."""

import pytest

from hearthkv.core.tier import Tier
from router.holder_states import NOBODY, HolderStates, bits_of

A, B, FAR = 1, 2, 1 << 999


def test_nobody_has_a_block_at_first():
    states = HolderStates()
    assert states.held[NOBODY] == 0
    assert states.tier_of(NOBODY, A) is None
    assert len(states) == 1


@pytest.mark.parametrize("tier", list(Tier))
@pytest.mark.parametrize("before", list(Tier))
def test_a_holding_has_a_block_in_the_tier_that_was_told_last(before, tier):
    states = HolderStates()
    state = states.with_tier(states.with_tier(NOBODY, A, before), A, tier)
    assert states.tier_of(state, A) == tier
    assert states.held[state] == A


def test_holdings_have_tiers_of_their_own():
    states = HolderStates()
    state = NOBODY
    for bit, tier in ((A, Tier.SSD), (B, Tier.HBM), (FAR, Tier.DRAM)):
        state = states.with_tier(state, bit, tier)
    assert [states.tier_of(state, bit) for bit in (A, B, FAR)] == [*(Tier.SSD, Tier.HBM, Tier.DRAM)]
    assert states.held[state] == A | B | FAR
    rest = states.without(state, A | FAR)
    assert rest == states.with_tier(NOBODY, B, Tier.HBM)
    assert states.without(rest, B) == NOBODY


def test_equal_states_have_one_number_however_they_came_about():
    states = HolderStates()
    one = states.with_tier(states.with_tier(NOBODY, A, Tier.DRAM), B, Tier.SSD)
    other = states.with_tier(states.with_tier(NOBODY, B, Tier.SSD), A, Tier.DRAM)
    assert one == other


def test_states_that_are_not_in_use_are_forgotten_and_their_numbers_given_again():
    states = HolderStates()
    used, unused = states.with_tier(NOBODY, A, Tier.DRAM), states.with_tier(NOBODY, B, Tier.DRAM)
    states.uses[used] = 1
    states.release([NOBODY, used, unused, unused])
    assert len(states) == 2
    assert states.held[used] == A
    assert states.held[unused] == 0
    assert states.with_tier(NOBODY, FAR, Tier.SSD) == unused
    assert states.held[unused] == FAR
    assert states.with_tier(NOBODY, B, Tier.DRAM) not in {used, unused}


def test_bits_come_one_by_one():
    assert list(bits_of(A | B | FAR)) == [A, B, FAR]
    assert list(bits_of(0)) == []
