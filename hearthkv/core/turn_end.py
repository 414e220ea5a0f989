"""How a session's turn ended, which tells when its prefix is wanted again. Pure."""

import enum
from dataclasses import dataclass

from hearthkv.core.errors import BadRequestError
from hearthkv.core.session_id import SessionId

RETURNS_IN_S_MAX = 3600.0


class TurnEnd(enum.Enum):
    """What a client knows when an answer is complete."""

    UNKNOWN = "unknown"
    """Nothing was said."""

    TOOL_CALL = "tool_call"
    """The answer asks for tools. Their results come as the next turn, mostly within seconds."""

    ANSWER = "answer"
    """The answer is for a person, who reads it, and comes back late or not at all."""

    FINAL = "final"
    """There is no next turn: the session ended, or the sub-agent was closed."""


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """
    What a client tells a node when a turn is over and what it saves is stored.

    Raises:
        BadRequestError: If `returns_in_s` is not in 0..RETURNS_IN_S_MAX.
    """

    session_id: SessionId
    end: TurnEnd
    returns_in_s: float | None = None
    """Seconds until the session's next turn, as far as the client knows; None if it does not."""

    def __post_init__(self) -> None:
        if self.returns_in_s is not None and not 0 <= self.returns_in_s <= RETURNS_IN_S_MAX:
            raise BadRequestError(
                f"returns_in is {self.returns_in_s:g} s, must be in 0..{RETURNS_IN_S_MAX:g} s"
            )
