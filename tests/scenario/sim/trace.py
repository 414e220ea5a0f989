"""What happened in one simulation, step by step: a digest of it all, and its last steps to read."""

import hashlib
from collections import deque
from collections.abc import Callable

from hearthkv.core.clock import ManualClock

LAST_STEPS = 40


class Violation(AssertionError):  # noqa: N818  # of a promise; nothing failed to run
    """An invariant does not hold; the text says which, and how to see it again."""


class Trace:
    """
    The steps of a simulation.

    Args:
        seed: Where all its randomness comes from.
        clock: The time of the simulation.
    """

    def __init__(self, seed: int, clock: ManualClock) -> None:
        self.seed = seed
        self.steps = 0
        self.failure: Violation | None = None
        """The first one; what follows it is of no interest."""

        self.at_end_of_step: list[Callable[[], None]] = []
        """What wants to look at the world once all that happens now has happened."""

        self._clock = clock
        self._digest = hashlib.blake2b(digest_size=16)
        self._last: deque[tuple[int, float, str]] = deque(maxlen=LAST_STEPS)

    @property
    def digest(self) -> str:
        """What two runs of one seed have in common."""
        return self._digest.hexdigest()

    def now(self) -> float:
        """Seconds since the simulation began."""
        return self._clock.now()

    def note(self, text: str) -> None:
        """Take note of a step."""
        self.steps += 1
        now = self._clock.now()
        self._last.append((self.steps, now, text))
        self._digest.update(f"{now:.9f} {text}\n".encode())

    def end_step(self) -> None:
        """Let those look who want to."""
        waiting, self.at_end_of_step = self.at_end_of_step, []
        for look in waiting:
            look()

    def fail(self, invariant: str, text: str) -> Violation:
        """Take note that an invariant is broken; the simulation ends after this step."""
        shown = "\n".join(f"  {step:6d} {at:9.4f}s  {what}" for step, at, what in self._last)
        violation = Violation(
            f"{invariant}: {text}\n"
            f"seed {self.seed}, step {self.steps}, {self._clock.now():.4f} s; the last steps:\n"
            f"{shown}\n"
            f"again: pytest tests/scenario/test_simulation.py --sim-seed={self.seed}"
        )
        if self.failure is None:
            self.failure = violation
        return violation

    def check(self, holds: bool, invariant: str, text: str) -> None:
        """Raise a Violation unless an invariant holds."""
        if not holds:
            raise self.fail(invariant, text)
