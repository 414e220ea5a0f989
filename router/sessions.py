"""
Where each session is. Pure.

A session may carry several prompts: the conversation, and beside it requests for a title or a
summary, and sub-agents. It is where its *main* prompt is. A turn whose prompt is less than half
of that is a turn aside, wherever it goes, and does not move the session. With every turn aside
the main prompt counts for an eighth less, so a conversation that was compacted is the main one
again before long.

At most `sessions_max` are remembered; one more forgets the session that was idle longest. Ids
are compared whole: `session-1` and `session-12` have nothing to do with each other.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import islice

from hearthkv.core.routing import SessionStatus
from hearthkv.core.session_id import NodeId, SessionId
from router.placement import LastTurn
from router.room import Claim

ASIDE_FRACTION = 0.5
"""Share of the main prompt below which a prompt is beside it."""

MAIN_KEPT = 7 / 8
"""What is left of the main prompt's tokens, as they are reckoned, after a turn aside."""


@dataclass(slots=True)
class _Session:
    """One session."""

    node_id: NodeId
    turns: int
    prompt_tokens: int
    matched_blocks: int
    last_turn_s: float
    main_tokens: float
    main_s: float
    """The hour of the last turn of its main prompt."""

    is_handed_over: bool = False


class Sessions:
    """The sessions that had a turn lately."""

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._by_id: dict[SessionId, _Session] = {}  # longest idle first
        self._on_node: Counter[NodeId] = Counter()

    def __len__(self) -> int:
        return len(self._by_id)

    def node_of(self, session_id: SessionId) -> NodeId | None:
        """Return the node of the session; None if it had no turn that is remembered."""
        session = self._by_id.get(session_id)
        return session.node_id if session else None

    def last_turn(self, session_id: SessionId) -> LastTurn | None:
        """Return where a session is; None if it had no turn that is remembered."""
        session = self._by_id.get(session_id)
        return LastTurn(session.node_id, session.is_handed_over) if session else None

    def claim(self, session_id: SessionId) -> Claim | None:
        """Return what a session claims on its node; None if it is not remembered."""
        session = self._by_id.get(session_id)
        if session is None:
            return None
        return Claim(session.node_id, round(session.main_tokens), session.main_s)

    def claim_on(self, session_id: SessionId, node_id: NodeId) -> Claim | None:
        """Return what a session claims, if its node is this one."""
        session = self._by_id.get(session_id)
        is_here = session is not None and session.node_id == node_id
        return self.claim(session_id) if is_here else None

    def is_aside(self, session_id: SessionId, prompt_tokens: int) -> bool:
        """Return whether a prompt is beside the session's main prompt."""
        session = self._by_id.get(session_id)
        return session is not None and prompt_tokens < ASIDE_FRACTION * session.main_tokens

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
        """Remember where a session is, and forget the one that was idle longest if need be."""
        before = self._forget(session_id)
        if len(self._by_id) >= self._sessions_max:
            self._forget(next(iter(self._by_id)))
        turns = before.turns + 1 if before else 1
        self._by_id[session_id] = _Session(
            node_id, turns, prompt_tokens, matched_blocks, now, prompt_tokens, now
        )
        self._on_node[node_id] += 1

    def note_aside(
        self, session_id: SessionId, *, prompt_tokens: int, matched_blocks: int, now: float
    ) -> None:
        """Note a turn aside of a session that is remembered: it stays where it is."""
        session = self._by_id[session_id] = self._by_id.pop(session_id)
        session.turns += 1
        session.prompt_tokens, session.matched_blocks = prompt_tokens, matched_blocks
        session.last_turn_s = now
        session.main_tokens *= MAIN_KEPT

    def move(self, session_id: SessionId, node_id: NodeId, to_node_id: NodeId) -> None:
        """Note that a session's blocks went from a node to another; its next turn follows."""
        session = self._by_id.get(session_id)
        if session is not None and session.node_id == node_id:
            session.node_id, session.is_handed_over = to_node_id, True
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

    def _forget(self, session_id: SessionId) -> _Session | None:
        session = self._by_id.pop(session_id, None)
        if session is not None:
            self._leave(session.node_id)
        return session

    def _leave(self, node_id: NodeId) -> None:
        self._on_node[node_id] -= 1
        if not self._on_node[node_id]:
            del self._on_node[node_id]
