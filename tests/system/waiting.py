"""Waits for what a real process will do, by asking again until it has, or until time is up."""

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

ASK_EVERY_S = 0.1


def eventually(
    question: Callable[[], Answer | None], *, within_s: float = 60.0, wanted: str
) -> Answer:
    """
    Return the first answer that is true.

    Raises:
        AssertionError: If there is none in time. `within_s` is long: a slow machine is no
            failure, and a quick one does not wait.
    """
    deadline_s = time.monotonic() + within_s
    while not (answer := question()):
        if time.monotonic() > deadline_s:
            raise AssertionError(
                f"not within {within_s:g} s: {wanted}; the last answer is {answer!r}"
            )
        time.sleep(ASK_EVERY_S)
    return answer
