"""The real clock and the one that tests turn."""

import math

import pytest

from hearthkv.core.clock import ManualClock, SystemClock, unix_time


def test_the_system_clock_never_goes_back():
    clock = SystemClock()
    readings = [clock.now() for _ in range(100)]
    assert readings == sorted(readings)


def test_a_manual_clock_moves_only_when_told():
    clock = ManualClock(5.0)
    assert clock.now() == clock.now() == 5.0
    clock.advance(1.5)
    clock.advance(0)
    assert clock.now() == 6.5


@pytest.mark.parametrize("seconds", [-1, math.nan])
def test_time_does_not_go_back(seconds):
    clock = ManualClock()
    with pytest.raises(ValueError, match=f"time can't go back: {seconds} s, must be >= 0"):
        clock.advance(seconds)
    assert clock.now() == 0


def test_the_date_is_this_century():
    assert 1_700_000_000 < unix_time() < 4_100_000_000
