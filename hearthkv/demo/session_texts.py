"""The texts of the demo's session: what they are, and how to read them out of TOML. Pure."""

import json
import tomllib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that the user attaches to the task."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """A tool's result, whole. A session may show its first lines only."""

    tool: str
    about: str
    """The path, the pattern or the command that the tool was called with."""

    text: str


@dataclass(frozen=True, slots=True)
class SessionTexts:
    """All that an agent and its user may say in one session."""

    system: str
    tools: tuple[dict[str, object], ...]
    """Tools as OpenAI's API describes them."""

    task: str
    open_files: tuple[OpenFile, ...]
    steps: tuple[Step, ...]
    """In order; the last one is short, as the end of such a task is."""

    follow_ups: tuple[str, ...]
    """What the user says after the task is done."""


def parse_texts(source: str) -> SessionTexts:
    """Return the texts that are written in `source`, a session file in TOML."""
    table = tomllib.loads(source)
    return SessionTexts(
        system=table["system"].strip(),
        tools=tuple(json.loads(line) for line in table["tools"].splitlines()),
        task=table["task"].strip(),
        open_files=tuple(OpenFile(**item) for item in table["open_files"]),
        steps=tuple(Step(**item) for item in table["steps"]),
        follow_ups=tuple(table["follow_ups"]),
    )
