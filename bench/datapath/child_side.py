"""
The child's side of a conversation: a line of JSON in, a line of JSON out. Not pure.

Needs the standard library alone, since children also run in the environments of peers. Whatever a
library prints goes to the log, because the first thing done here is to take stdout away from it.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import TextIO

Message = Mapping[str, int | str | list[int]]
"""What goes over the pipe, either way."""


def replies() -> TextIO:
    """Return the true stdout, and send what is printed from now on to stderr."""
    kept = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return kept


def say(to: TextIO, message: Message) -> None:
    """Write one message."""
    to.write(json.dumps(message) + "\n")


def serve(to: TextIO, answer: Callable[[Message], Message]) -> None:
    """Answer every line of stdin until it ends."""
    for line in sys.stdin:
        say(to, answer(json.loads(line)))
