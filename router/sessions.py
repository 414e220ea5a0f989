"""
Where each session's last turn went. Pure.

At most `sessions_max` are remembered; one more forgets the session that was idle longest. Ids
are compared whole: `session-1` and `session-12` have nothing to do with each other.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import islice

from hearthkv.core.routing import SessionStatus
from hearthkv.core.session_id import NodeId, SessionId


@dataclass(slots=True)
class _Session:
    """One session."""

    node_id: NodeId
    turns: int
    prompt_tokens: int
    matched_blocks: int
    last_turn_s: float


class Sessions:
    """The sessions that had a turn lately."""

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._by_id: dict[SessionId, _Session] = {}  # longest idle first
        self._on_node: Counter[NodeId] = Counter()

    def __len__(self) -> int:
        return len(self._by_id)

    def node_of(self, session_id: SessionId) -> NodeId | None:
        """Return the node of the session's last turn; None if it had none that is remembered."""
        session = self._by_id.get(session_id)
        return session.node_id if session else None

    def count_on(self, node_id: NodeId) -> int:
        """Return how many sessions had their last turn on a node."""
        return self._on_node[node_id]

    def note_turn(
        self,
        session_id: SessionId,
        node_id: NodeId,
        *,
        prompt_tokens: int,
        matched_blocks: int,
        now: float,
    ) -> None:
        """Remember where a turn went, and forget the session that was idle longest if need be."""
        turns = self._forget(session_id)
        if len(self._by_id) >= self._sessions_max:
            self._forget(next(iter(self._by_id)))
        self._by_id[session_id] = _Session(node_id, turns + 1, prompt_tokens, matched_blocks, now)
        self._on_node[node_id] += 1

    def move(self, session_id: SessionId, node_id: NodeId, to_node_id: NodeId) -> None:
        """Note that a session's blocks went from a node to another; its next turn follows."""
        session = self._by_id.get(session_id)
        if session is not None and session.node_id == node_id:
            session.node_id = to_node_id
            self._leave(node_id)
            self._on_node[to_node_id] += 1

    def end(self, session_id: SessionId) -> NodeId | None:
        """Forget a session; return the node of its last turn, None if it was not known."""
        node_id = self.node_of(session_id)
        self._forget(session_id)
        return node_id

    def latest(self, limit: int, now: float) -> list[SessionStatus]:
        """Return up to `limit` sessions, most recent first."""
        return [
            SessionStatus(
                session_id=session_id,
                node_id=session.node_id,
                turns=session.turns,
                prompt_tokens=session.prompt_tokens,
                matched_blocks=session.matched_blocks,
                idle_s=now - session.last_turn_s,
            )
            for session_id, session in islice(reversed(self._by_id.items()), limit)
        ]

    def _forget(self, session_id: SessionId) -> int:
        """Forget a session; return how many turns it had."""
        session = self._by_id.pop(session_id, None)
        if session is None:
            return 0
        self._leave(session.node_id)
        return session.turns

    def _leave(self, node_id: NodeId) -> None:
        self._on_node[node_id] -= 1
        if not self._on_node[node_id]:
            del self._on_node[node_id]
