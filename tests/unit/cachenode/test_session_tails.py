"""Where the prompts of sessions end."""

import pytest

from cachenode.block import Block
from cachenode.session_tails import TAILS_MAX, SessionTails
from hearthkv.core.session_id import SessionId
from tests.unit.cachenode.catalog_kit import hold, new_holdings

X, Y, Z = SessionId("x"), SessionId("y"), SessionId("z")


@pytest.fixture
def chain() -> list[Block]:
    """Three blocks, one after the other."""
    holdings = new_holdings()
    return [hold(holdings, 1), hold(holdings, 2, 1), hold(holdings, 3, 2)]


@pytest.fixture
def roots() -> list[Block]:
    """First blocks of prompts, one more than a session has tails."""
    holdings = new_holdings()
    return [hold(holdings, number) for number in range(1, TAILS_MAX + 2)]


def test_a_prompt_that_grows_has_one_tail(chain: list[Block]):
    tails = SessionTails()
    for block in chain:
        tails.note(X, block)
    assert [tails.is_tail(block) for block in chain] == [False, False, True]
    assert tails.forget(X) == [chain[2]]


def test_a_tail_that_is_noted_again_stays_one(chain: list[Block]):
    tails = SessionTails()
    tails.note(X, chain[0])
    tails.note(X, chain[0])
    assert tails.forget(X) == [chain[0]]
    assert not tails.is_tail(chain[0])


def test_two_sessions_share_a_tail_until_both_are_forgotten(chain: list[Block]):
    tails = SessionTails()
    tails.note(X, chain[0])
    tails.note(Y, chain[0])
    tails.forget(X)
    assert tails.is_tail(chain[0])
    tails.forget(Y)
    assert not tails.is_tail(chain[0])


def test_the_oldest_tail_of_too_many_is_forgotten(roots: list[Block]):
    tails = SessionTails()
    for block in roots:
        tails.note(X, block)
    assert not tails.is_tail(roots[0])
    assert tails.forget(X) == roots[1:]


def test_the_oldest_session_of_too_many_is_forgotten(roots: list[Block]):
    tails = SessionTails(sessions_max=2)
    tails.note(X, roots[0])
    tails.note(Y, roots[1])
    tails.note(X, roots[0])
    tails.note(Z, roots[2])
    assert tails.forget(Y) == []
    assert tails.forget(X) == [roots[0]]
    assert tails.forget(Z) == [roots[2]]


def test_an_unknown_session_has_no_tails():
    assert SessionTails().forget(X) == []


def test_the_tail_of_a_block_that_goes_is_what_is_left(chain: list[Block]):
    tails = SessionTails()
    tails.note(X, chain[2])
    tails.note(Y, chain[2])
    tails.slide(chain[2])
    assert not tails.is_tail(chain[2])
    assert tails.forget(X) == [chain[1]]
    assert tails.forget(Y) == [chain[1]]


def test_a_session_whose_last_block_goes_is_forgotten(roots: list[Block]):
    tails = SessionTails()
    tails.note(X, roots[0])
    tails.note(X, roots[1])
    tails.slide(roots[0])
    assert tails.is_tail(roots[1])
    tails.slide(roots[1])
    assert tails.forget(X) == []


def test_a_block_that_is_no_tail_slides_nothing(chain: list[Block]):
    tails = SessionTails()
    tails.slide(chain[0])
    assert not tails.is_tail(chain[0])


def test_the_prompt_used_last_is_known(roots: list[Block]):
    tails = SessionTails()
    assert tails.last(X) is None
    tails.note(X, roots[0])
    tails.note(X, roots[1])
    assert tails.last(X) is roots[1]
    tails.note(X, roots[0])
    assert tails.last(X) is roots[0]
    assert tails.last(Y) is None


def test_a_prompt_that_shrinks_is_not_the_one_used_last(chain: list[Block], roots: list[Block]):
    tails = SessionTails()
    tails.note(X, chain[2])
    tails.note(X, roots[0])
    tails.slide(chain[2])
    assert tails.last(X) is roots[0]
    assert tails.forget(X) == [chain[1], roots[0]]


def test_the_prompt_used_last_stays_that_when_it_shrinks(chain: list[Block], roots: list[Block]):
    tails = SessionTails()
    tails.note(X, roots[0])
    tails.note(X, chain[2])
    tails.slide(chain[2])
    assert tails.last(X) is chain[1]


def test_prompts_that_shrink_into_one_end_where_the_later_one_did():
    holdings = new_holdings()
    trunk = hold(holdings, 1)
    before, after = hold(holdings, 2, 1), hold(holdings, 3, 1)
    other = hold(holdings, 4)
    tails = SessionTails()
    for block in (before, other, after):
        tails.note(X, block)
    tails.slide(after)
    tails.slide(before)
    assert tails.last(X) is trunk
    assert tails.forget(X) == [other, trunk]


def test_it_is_known_whether_another_session_ends_with_a_block(roots: list[Block]):
    tails = SessionTails()
    tails.note(X, roots[0])
    assert tails.has_other(roots[0], Y)
    assert not tails.has_other(roots[0], X)
    assert not tails.has_other(roots[1], X)
