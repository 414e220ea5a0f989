"""
The script of the demo's session: what is said in each round, and how much of it. Pure.

A session has the shape of real agents' sessions: about half of its last prompt is there from
the first round on (system prompt, tools, task and attached files), the rest comes as results of
tools, and the last round adds little. Its size is set in tokens of the model that plays it, so
every text is cut, by whole lines, to what the caller's counting of tokens allows.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hearthkv.demo.session_texts import OpenFile, SessionTexts, Step

Message = dict[str, str]
"""A chat message: `role` and `content`."""

CountTokens = Callable[[Sequence[Message]], Awaitable[int]]
"""Says how many tokens the prompt has that these messages make, the opened answer included."""

TOKENS_MIN = 2000
TOKENS_MAX = 8000
TOKENS_DEFAULT = 2500

ROUNDS_FULL = 10
"""Rounds of the whole script. A shorter session leaves steps out in the middle."""

ROUNDS_MIN = 2

OPENING_SHARE = 0.48
"""Share of the last prompt that a full session opens with."""

LAST_GROWTH_TOKENS = 100
"""What the last round adds at most: an answer of 24 tokens and the result of the last tests."""


@dataclass(frozen=True, slots=True)
class _Sized:
    """A text as cut, and what the prompt then counts."""

    text: str
    tokens: int


def prompt_targets(tokens: int, rounds: int) -> list[int]:
    """
    Return how long the prompt of each round may become.

    Args:
        tokens: Length of the last prompt.
        rounds: Rounds of the session, in `ROUNDS_MIN`..`ROUNDS_FULL`.
    """
    before_last = tokens - LAST_GROWTH_TOKENS
    growth = (before_last - OPENING_SHARE * tokens) / (ROUNDS_FULL - 2)
    opening = before_last - growth * (rounds - 2)
    return [int(opening + growth * index) for index in range(rounds - 1)] + [tokens]


def steps_for(texts: SessionTexts, rounds: int) -> tuple[Step, ...]:
    """Return the results between the rounds: the first ones of the script, then its last two."""
    count = rounds - 1
    if count == 1:
        return texts.steps[-1:]
    return (*texts.steps[: count - 2], *texts.steps[-2:])


async def opening(texts: SessionTexts, target: int, count: CountTokens) -> list[Message]:
    """Return the messages of round 1: the system prompt, and a task with as many files as fit."""
    system = message("system", texts.system)

    async def counted(lines: int) -> _Sized:
        text = _task(texts, lines)
        return _Sized(text, await count([system, message("user", text)]))

    lines_max = sum(len(file.text.splitlines()) for file in texts.open_files)
    return [system, message("user", await _largest(counted, lines_max, target))]


async def step_message(
    step: Step, history: Sequence[Message], target: int, count: CountTokens
) -> Message:
    """
    Return a tool's result as the message that follows `history`.

    It shows as many lines as keep the prompt within `target`, but always the first.
    """

    async def counted(lines: int) -> _Sized:
        text = _result(step, lines)
        return _Sized(text, await count([*history, message("tool", text)]))

    return message("tool", await _largest(counted, len(step.text.splitlines()), target))


def message(role: str, content: str) -> Message:
    """Return a chat message."""
    return {"role": role, "content": content}


async def _largest(counted: Callable[[int], Awaitable[_Sized]], lines_max: int, target: int) -> str:
    """Return the text with the most lines that stays within `target`, by binary search."""
    best = await counted(1)
    low, high = 2, lines_max
    while low <= high:
        middle = (low + high) // 2
        sized = await counted(middle)
        if sized.tokens <= target:
            best, low = sized, middle + 1
        else:
            high = middle - 1
    return best.text


def _task(texts: SessionTexts, lines: int) -> str:
    parts = [texts.task]
    for file in texts.open_files:
        if lines <= 0:
            break
        parts.append(_file(file, lines))
        lines -= len(file.text.splitlines())
    return "\n\n".join(parts)


def _file(file: OpenFile, lines: int) -> str:
    return (
        f'<file path="{file.path}"{_extent(file.text, lines)}>\n{_head(file.text, lines)}\n</file>'
    )


def _result(step: Step, lines: int) -> str:
    about = step.about.replace('"', "'")
    head = f'<tool_response tool="{step.tool}" about="{about}"{_extent(step.text, lines)}>'
    return f"{head}\n{_head(step.text, lines)}\n</tool_response>"


def _extent(text: str, lines: int) -> str:
    """Say which lines are shown, where not all are."""
    count = len(text.splitlines())
    return f' lines="1-{lines} of {count}"' if lines < count else ""


def _head(text: str, lines: int) -> str:
    return "\n".join(text.splitlines()[:lines])
