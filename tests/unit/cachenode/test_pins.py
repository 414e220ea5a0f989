"""Pins and their times."""

import pytest

from cachenode import pins as pins_module
from cachenode.block import Block
from cachenode.pins import Pins
from tests.unit.cachenode.catalog_kit import hold, new_holdings


@pytest.fixture
def chain() -> list[Block]:
    """Three blocks, one after the other."""
    holdings = new_holdings()
    return [hold(holdings, 1), hold(holdings, 2, 1), hold(holdings, 3, 2)]


def test_a_pin_marks_the_last_block_of_its_prefix(chain: list[Block]):
    pins = Pins()
    pins.add("p", chain[1], expires_at=5)
    assert [pins.is_pinned(block) for block in chain] == [False, True, False]
    assert len(pins) == 1


def test_an_ended_pin_says_how_many_blocks_it_kept_and_only_once(chain: list[Block]):
    pins = Pins()
    pins.add("p", chain[1], expires_at=5)
    assert pins.remove("p") == 2
    assert pins.remove("p") == 0
    assert not pins.is_pinned(chain[1])


def test_a_block_is_pinned_until_its_last_pin_ends(chain: list[Block]):
    pins = Pins()
    pins.add("p", chain[2], expires_at=5)
    pins.add("q", chain[2], expires_at=5)
    pins.remove("p")
    assert pins.is_pinned(chain[2])
    pins.remove("q")
    assert not pins.is_pinned(chain[2])


def test_a_pin_ends_when_its_time_is_over(chain: list[Block]):
    pins = Pins()
    pins.add("p", chain[0], expires_at=5)
    pins.add("q", chain[0], expires_at=6)
    assert pins.expire(4.9) == 0
    assert pins.expire(5) == 1
    assert pins.is_pinned(chain[0])
    assert pins.expire(60) == 1
    assert len(pins) == 0


def test_the_pin_of_a_block_that_goes_keeps_what_is_left(chain: list[Block]):
    pins = Pins()
    pins.add("p", chain[2], expires_at=5)
    pins.add("q", chain[1], expires_at=5)
    pins.slide(chain[2])
    assert not pins.is_pinned(chain[2])
    assert pins.is_pinned(chain[1])
    assert pins.remove("p") == 2
    assert pins.is_pinned(chain[1])


def test_the_pin_of_a_first_block_ends_with_it(chain: list[Block]):
    pins = Pins()
    pins.add("p", chain[0], expires_at=5)
    pins.slide(chain[0])
    assert len(pins) == 0
    assert pins.remove("p") == 0


def test_a_block_without_pins_slides_nothing(chain: list[Block]):
    pins = Pins()
    pins.slide(chain[0])
    assert len(pins) == 0


def test_there_is_a_most_of_pins(chain: list[Block], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pins_module, "PINS_MAX", 1)
    pins = Pins()
    assert not pins.is_full
    pins.add("p", chain[0], expires_at=5)
    assert pins.is_full
