"""
The clock: the one module that reads time.

Everything else is handed a `Clock`, so that tests and the simulator decide what time it is.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time that has passed."""

    def now(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


class SystemClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        return time.monotonic()


class ManualClock:
    """A clock that moves only when it is told to."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now(self) -> float:
        """Seconds, as set by `advance`."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """
        Let time pass.

        Raises:
            ValueError: If `seconds` is negative or not a number.
        """
        if not seconds >= 0:
            raise ValueError(f"time can't go back: {seconds} s, must be >= 0")
        self._now_s += seconds


def unix_time() -> int:
    """Whole seconds since 1970, for people and formats that want a date; it may go back."""
    return int(time.time())
