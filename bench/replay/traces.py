"""
Reads the traces that the replay plays: who asks when, and which blocks its prompt has.

A trace names no tokens: a block is a number, and equal numbers mean equal prefixes. The last
block of a prompt may be partial. It counts as one, and its hit as the tokens that the prompt has.
"""

import gzip
import json
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, cast

NAMES = ("agent-coding-part-a", "mooncake-conversation", "agent-lmcache-16")

Run = tuple[int, int]
"""Neighbouring block numbers of one prompt, as (first, count)."""

Row = Mapping[str, object]
Session = TypeVar("Session")


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt of a trace."""

    at_s: float
    tokens: int
    runs: tuple[Run, ...]
    thread: str = ""  # the agent or sub-agent that asks; empty where the trace does not say
    answer_s: float = 0.0  # from the request to the end of its answer; 0 where not recorded
    idle_s: float | None = None  # from there to the thread's next request; None if this is its last


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in the order of their times."""

    name: str
    block_tokens: int
    requests: tuple[Request, ...]

    @property
    def tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(request.tokens for request in self.requests)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Which sessions of a trace are played, and when they start, if it has no absolute times."""

    seed: int
    session_count: int  # drawn without replacement; all where the trace has no more
    gap_s: float = 60.0  # mean of the exponential gaps between two starts


def read(name: str, folder: Path, arrivals: Arrivals) -> Trace:
    """Read one of `NAMES`; a `FileNotFoundError` names what is missing."""
    rows = list(_rows(folder / f"{name}.jsonl.gz"))
    match name:
        case "agent-coding-part-a":
            return agent_coding(rows, arrivals)
        case "agent-lmcache-16":
            return agent_lmcache(rows, arrivals)
        case _:
            return mooncake_conversation(rows)


def is_there(name: str, folder: Path) -> bool:
    """Return whether a trace can be read; where it can't, say so to whoever runs the bench."""
    path = folder / f"{name}.jsonl.gz"
    if not path.exists():
        print(f"{path} is not there: --traces names the folder of the traces", file=sys.stderr)
    return path.exists()


def mooncake_conversation(rows: Iterable[Row]) -> Trace:
    """Return an hour of chat. It has absolute times, and does not name sessions."""
    requests = [
        Request(
            at_s=cast("float", row["timestamp"]) / 1000,
            tokens=cast("int", row["input_length"]),
            runs=tuple((number, 1) for number in cast("list[int]", row["hash_ids"])),
        )
        for row in rows
    ]
    return _in_order("mooncake-conversation", 512, requests)


def agent_coding(rows: Sequence[Row], arrivals: Arrivals) -> Trace:
    """Return sessions of a coding agent, given their starts."""
    requests: list[Request] = []
    blocks_before = 0
    for session, start_s in _drawn(rows, arrivals):
        blocks = 0
        for row in cast("list[Row]", session["requests"]):
            runs = _runs(row)
            blocks = max(blocks, *(first + count for first, count in runs), 0)
            requests.append(
                Request(
                    at_s=start_s + cast("float", row["t"]),
                    tokens=cast("int", row["in"]),
                    # Numbers are private to a session there, and mean the same everywhere here.
                    runs=tuple((first + blocks_before, count) for first, count in runs),
                    thread=f"{session['session']}/{row.get('agent', 0)}",
                    answer_s=cast("float", row.get("api", 0.0)),
                )
            )
        blocks_before += blocks
    return _in_order("agent-coding-part-a", cast("int", rows[0]["block_size"]), requests)


def agent_lmcache(rows: Iterable[Row], arrivals: Arrivals) -> Trace:
    """Return agent runs, which were recorded one after the other, made to overlap."""
    sessions: dict[str, list[Row]] = {}
    for row in rows:
        sessions.setdefault(cast("str", row["session"]), []).append(row)
    requests = [
        Request(
            at_s=start_s + cast("float", row["timestamp"]) - cast("float", session[0]["timestamp"]),
            tokens=cast("int", row["input_length"]),
            runs=_runs(row),
            thread=cast("str", row["session"]),
        )
        for session, start_s in _drawn(list(sessions.values()), arrivals)
        for row in session
    ]
    return _in_order("agent-lmcache-16", 16, requests)


def _drawn(sessions: Sequence[Session], arrivals: Arrivals) -> Iterator[tuple[Session, float]]:
    """Draw sessions, with the second at which each starts."""
    chance = random.Random(arrivals.seed)
    shuffled = list(sessions)
    chance.shuffle(shuffled)
    start_s = 0.0
    for session in shuffled[: arrivals.session_count]:
        start_s += chance.expovariate(1 / arrivals.gap_s)
        yield session, start_s


def _in_order(name: str, block_tokens: int, requests: Iterable[Request]) -> Trace:
    """Sort requests by their times, and reckon how long each thread was idle after each."""
    ordered = sorted(requests, key=lambda request: request.at_s)
    next_at_s: dict[str, float] = {}
    for index in range(len(ordered) - 1, -1, -1):
        request = ordered[index]
        if request.thread in next_at_s:
            idle_s = next_at_s[request.thread] - request.at_s - request.answer_s
            ordered[index] = replace(request, idle_s=max(idle_s, 0.0))
        if request.thread:
            next_at_s[request.thread] = request.at_s
    return Trace(name, block_tokens, tuple(ordered))


def _runs(row: Row) -> tuple[Run, ...]:
    return tuple((first, count) for first, count in cast("list[list[int]]", row["runs"]))


def _rows(path: Path) -> Iterator[Row]:
    with gzip.open(path, "rt") as lines:
        for line in lines:
            yield json.loads(line)
