"""What turns under way have left to compute, by what the node holds of their prompts."""

from typing import Final

from cachenode.catalog import Catalog
from cachenode.turn_loads import TurnLoads
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.clock import Clock
from hearthkv.core.session_id import SessionId

BLOCK_SIZE: Final = 16
"""Tokens of a block of a namespace that is not known yet, for nothing of it is held."""


class NodeLoads:
    """
    The turns that a node knows of: those whose calls name their session.

    Args:
        catalog: What is held.
        clock: When turns are over that nobody ends.
    """

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock
        self._loads = TurnLoads()

    @property
    def tokens(self) -> int:
        """Prompt tokens that turns under way have left to compute."""
        return self._loads.tokens(self._clock.now())

    @property
    def turns(self) -> int:
        """How many turns are under way."""
        return self._loads.turns(self._clock.now())

    def has_turn(self, session_id: SessionId) -> bool:
        """Whether a turn of this session is under way."""
        return self._loads.is_under_way(session_id, self._clock.now())

    def ask(
        self,
        session_id: SessionId | None,
        namespace_id: bytes,
        keys: PackedKeys,
        first_block: int = 0,
    ) -> None:
        """Take note of what a turn asks for, where it says whose turn it is."""
        if session_id is None:
            return
        spec = self._catalog.spec_of(namespace_id)
        self._loads.ask(
            session_id,
            asked_blocks=first_block + len(keys),
            held_blocks=first_block + self._catalog.held_blocks(namespace_id, keys),
            block_size=spec.block_size if spec else BLOCK_SIZE,
            now=self._clock.now(),
        )

    def compute(self, session_id: SessionId | None, blocks: int) -> None:
        """Learn that blocks of a prompt were computed, where it is known whose."""
        if session_id is not None:
            self._loads.compute(session_id, blocks)

    def end(self, session_id: SessionId) -> None:
        """Learn that a turn is over."""
        self._loads.end(session_id)
