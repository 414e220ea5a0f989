"""Which prompts of which session end where, so that a session can be dropped. Pure."""

from collections import OrderedDict
from collections.abc import Iterator

from cachenode.block import Block
from hearthkv.core.session_id import SessionId

SESSIONS_MAX = 65_536
TAILS_MAX = 4


class SessionTails:
    """
    Remembers the last blocks of the prompts that a session read or wrote.

    A session has a few tails at most, and the oldest sessions are forgotten; what is forgotten
    belongs to nobody, and so is never dropped with a session, only evicted.
    """

    def __init__(self, sessions_max: int = SESSIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self._tails: OrderedDict[SessionId, OrderedDict[Block, None]] = OrderedDict()
        self._sessions: dict[Block, set[SessionId]] = {}

    def note(self, session_id: SessionId, block: Block) -> None:
        """Learn that a session's prompt reaches to `block`, from its parent if that was a tail."""
        tails = self._tails.setdefault(session_id, OrderedDict())
        self._tails.move_to_end(session_id)
        if block.parent is not None and block.parent in tails:
            self._unlink(session_id, block.parent)
        tails[block] = None
        tails.move_to_end(block)
        self._sessions.setdefault(block, set()).add(session_id)
        if len(tails) > TAILS_MAX:
            self._unlink(session_id, next(iter(tails)))
        if len(self._tails) > self._sessions_max:
            self.forget(next(iter(self._tails)))

    def is_tail(self, block: Block) -> bool:
        """Whether some session's prompt ends with `block`."""
        return block in self._sessions

    def last(self, session_id: SessionId) -> Block | None:
        """The last block of the prompt that a session read or wrote last; None if unknown."""
        return next(reversed(self._tails.get(session_id, ())), None)

    def of(self, session_id: SessionId) -> tuple[Block, ...]:
        """The last blocks of a session's prompts, the one used last behind the others."""
        return tuple(self._tails.get(session_id, ()))

    def sessions(self) -> Iterator[tuple[SessionId, tuple[Block, ...]]]:
        """The sessions with their last blocks; who read or wrote last comes first."""
        for session_id in reversed(tuple(self._tails)):
            yield session_id, self.of(session_id)

    def has_other(self, block: Block, session_id: SessionId) -> bool:
        """Whether a prompt of another session ends with `block`."""
        return any(other != session_id for other in self._sessions.get(block, ()))

    def forget(self, session_id: SessionId) -> list[Block]:
        """Forget a session and return its tails."""
        tails = list(self._tails.get(session_id, ()))
        for block in tails:
            self._unlink(session_id, block)
        self._tails.pop(session_id, None)
        return tails

    def slide(self, block: Block) -> None:
        """Let the tails of a block that goes end with what is left before it."""
        for session_id in self._sessions.pop(block, ()):
            tails = self._tails[session_id]
            was_last = self.last(session_id) is block
            del tails[block]
            if block.parent is not None:
                is_new = block.parent not in tails
                tails[block.parent] = None
                self._sessions.setdefault(block.parent, set()).add(session_id)
                if was_last or is_new:  # a prompt that shrinks was not used by that
                    tails.move_to_end(block.parent, last=was_last)
            elif not tails:
                del self._tails[session_id]

    def _unlink(self, session_id: SessionId, block: Block) -> None:
        del self._tails[session_id][block]
        sessions = self._sessions[block]
        sessions.remove(session_id)
        if not sessions:
            del self._sessions[block]
