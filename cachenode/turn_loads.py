"""What the engine beside the node has to compute: prompts under way that are not held. Pure."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from hearthkv.core.session_id import SessionId

TURN_S: Final = 60.0
"""Seconds after which a turn is taken to be over, though nobody said so."""

SESSIONS_MAX: Final = 65_536


@dataclass(slots=True)
class _Load:
    block_size: int
    asked_blocks: int
    """Blocks of the prompt, as far as they were asked for."""

    there_blocks: int
    """How many of them were held, or are computed by now."""

    until_s: float

    @property
    def tokens(self) -> int:
        return max(0, self.asked_blocks - self.there_blocks) * self.block_size


class TurnLoads:
    """
    Adds up what turns have left to compute.

    A turn is known by its session. It begins when somebody asks for blocks on the session's
    behalf; what is written for it was computed; it ends when that is said, or after TURN_S.
    """

    def __init__(self, sessions_max: int = SESSIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self._loads: OrderedDict[SessionId, _Load] = OrderedDict()  # who asked last comes last
        self._tokens = 0

    def is_under_way(self, session_id: SessionId, now: float) -> bool:
        """Whether a turn of this session is."""
        self._expire(now)
        return session_id in self._loads

    def turns(self, now: float) -> int:
        """How many turns are under way."""
        self._expire(now)
        return len(self._loads)

    def ask(
        self,
        session_id: SessionId,
        *,
        asked_blocks: int,
        held_blocks: int,
        block_size: int,
        now: float,
    ) -> None:
        """
        Learn that a turn wants blocks.

        Args:
            session_id: The session.
            asked_blocks: Where what it asks for ends, counted from the prompt's first block.
            held_blocks: Where what is held of that ends, counted likewise.
            block_size: Tokens in a block.
            now: The time, in seconds.
        """
        before = self._take(session_id)
        if before is not None and before.block_size == block_size:
            asked_blocks = max(asked_blocks, before.asked_blocks)
            held_blocks = max(held_blocks, before.there_blocks)
        load = _Load(block_size, asked_blocks, held_blocks, now + TURN_S)
        self._loads[session_id] = load
        self._tokens += load.tokens
        if len(self._loads) > self._sessions_max:
            self._take(next(iter(self._loads)))

    def compute(self, session_id: SessionId, blocks: int) -> None:
        """Learn that further blocks of a prompt were computed; of an unknown turn, no matter."""
        load = self._loads.get(session_id)
        if load is not None:
            self._tokens -= load.tokens
            load.there_blocks += blocks
            self._tokens += load.tokens

    def end(self, session_id: SessionId) -> None:
        """Learn that a turn is over."""
        self._take(session_id)

    def tokens(self, now: float) -> int:
        """Prompt tokens that turns under way have left to compute."""
        self._expire(now)
        return self._tokens

    def _expire(self, now: float) -> None:
        while self._loads:
            session_id, load = next(iter(self._loads.items()))
            if now < load.until_s:
                return
            self._take(session_id)

    def _take(self, session_id: SessionId) -> _Load | None:
        load = self._loads.pop(session_id, None)
        if load is not None:
            self._tokens -= load.tokens
        return load
