"""
What a client would have told the node at the end of each turn of a trace.

When a thread ended is in the traces. How the other turns ended is not: whether an answer called
tools or was for a person was dropped with the texts. `guessed_ends` stands in for that. It calls
an answer one for a person where the thread was idle for long after it, and is wrong now and then.
So it knows something of the time of the next turn, and what is won with it is an estimate.
"""

import random
from collections.abc import Callable

from bench.replay.traces import Request, Trace
from hearthkv.core.turn_end import TurnEnd

TurnEnds = list[TurnEnd | None]
"""One for each request; None where nothing is said at all."""

PERSON_IDLE_S = 45.0
PERSON_MISSED = 0.10
"""Share of the long pauses that are said to be tool calls: builds, tests, sub-agents."""

TOOL_MISTAKEN = 0.05
"""Share of the short pauses that are said to be answers: people that are quick."""


def no_ends(trace: Trace) -> TurnEnds:
    """A client that says nothing, and names no session."""
    return [None] * len(trace.requests)


def final_ends(trace: Trace) -> TurnEnds:
    """A client that says when a session ends or a sub-agent is closed."""
    return [_end(request, lambda _: TurnEnd.UNKNOWN) for request in trace.requests]


def guessed_ends(trace: Trace) -> TurnEnds:
    """A client that says that, and whether an answer called tools or was for a person."""
    chance = random.Random(trace.name)

    def guessed(idle_s: float) -> TurnEnd:
        odds = 1 - PERSON_MISSED if idle_s > PERSON_IDLE_S else TOOL_MISTAKEN
        return TurnEnd.ANSWER if chance.random() < odds else TurnEnd.TOOL_CALL

    return [_end(request, guessed) for request in trace.requests]


def _end(request: Request, while_live: Callable[[float], TurnEnd]) -> TurnEnd | None:
    if not request.thread:
        return None
    return TurnEnd.FINAL if request.idle_s is None else while_live(request.idle_s)
