"""How sessions' turns ended: what that says of their blocks, and when they are lifted. Pure."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from cachenode.block import Block
from cachenode.block_tree import path
from cachenode.due_lifts import DueLifts
from cachenode.holdings import Holdings
from cachenode.prefetch import Prefetch
from hearthkv.core.session_id import SessionId
from hearthkv.core.turn_end import EndedTurn, TurnEnd

TOOL_CALL_S: Final = 23.0
"""Seconds after which half of the sessions are back that called a tool; 95 % are in 300 s."""

LEAD_S: Final = 3.0
"""Seconds before its expected return at which a session's blocks are lifted."""

SESSIONS_MAX: Final = 65_536


class Turns:
    """
    Tells the policy what a session's last turn says of its blocks, and lifts them in time.

    A session is known by the prompt that it read or wrote last. After a tool call that is lifted
    at once, and again shortly before the session is expected, for it may have been moved down in
    between. A session that is back needs no lifting: it reads.
    """

    def __init__(
        self, holdings: Holdings, prefetch: Prefetch, sessions_max: int = SESSIONS_MAX
    ) -> None:
        self._holdings = holdings
        self._prefetch = prefetch
        self._sessions_max = sessions_max
        self._counts: OrderedDict[SessionId, int] = OrderedDict()
        self._due = DueLifts()

    def begin(self, session_id: SessionId) -> None:
        """Learn that a session is back."""
        self._due.cancel(session_id)

    def end(self, turn: EndedTurn, now: float) -> None:
        """Learn how a turn ended. A session without blocks here is no matter."""
        self._due.cancel(turn.session_id)
        tail = self._holdings.tails.last(turn.session_id)
        if tail is None:
            return
        own = list(self._own(tail, turn.session_id))
        self._holdings.policy.hinted(own, turn.end, self._count(turn))
        if turn.end is not TurnEnd.FINAL:
            self._due.plan(turn.session_id, _lift_times(turn, now))

    def lift_due(self, now: float) -> int:
        """Queue the blocks of sessions that are due; return how many are queued or coming."""
        coming = 0
        for session_id in self._due.take(now):
            tail = self._holdings.tails.last(session_id)
            if tail is not None:
                coming += self._prefetch.lift(reversed(list(path(tail))))
        return coming

    def _own(self, tail: Block, session_id: SessionId) -> Iterator[Block]:
        """The blocks that only this prompt needs, from the last to the first."""
        children_max = 0
        for block in path(tail):
            if len(block.children) > children_max:
                return
            if self._holdings.tails.has_other(block, session_id):
                return
            yield block
            children_max = 1

    def _count(self, turn: EndedTurn) -> int:
        """Turns that the session had so far; those before it was forgotten are not known."""
        count = self._counts.pop(turn.session_id, 0) + 1
        if turn.end is not TurnEnd.FINAL:
            self._counts[turn.session_id] = count
            if len(self._counts) > self._sessions_max:
                self._counts.popitem(last=False)
        return count


def _lift_times(turn: EndedTurn, now: float) -> tuple[float, ...]:
    """When the blocks of a session are to be lifted."""
    is_tool_call = turn.end is TurnEnd.TOOL_CALL
    returns_in_s = turn.returns_in_s
    if returns_in_s is None and is_tool_call:
        returns_in_s = TOOL_CALL_S
    before = () if returns_in_s is None else (now + max(returns_in_s - LEAD_S, 0),)
    return (now, *before) if is_tool_call else before
