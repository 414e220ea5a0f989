"""Which sessions' blocks are to be lifted when. Pure."""

from collections.abc import Sequence

from hearthkv.core.session_id import SessionId

SESSIONS_MAX = 4096


class DueLifts:
    """
    The times at which sessions are to be lifted, for a bounded number of them.

    One session too many is not lifted ahead of its return: a slower read, and no error.
    """

    def __init__(self, sessions_max: int = SESSIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self._due_s: dict[SessionId, list[float]] = {}

    def plan(self, session_id: SessionId, times_s: Sequence[float]) -> None:
        """Lift a session at these times, and at no others."""
        self.cancel(session_id)
        if times_s and len(self._due_s) < self._sessions_max:
            self._due_s[session_id] = sorted(times_s)

    def cancel(self, session_id: SessionId) -> None:
        """Lift a session at no time. One that is not planned is no matter."""
        self._due_s.pop(session_id, None)

    def take(self, now: float) -> list[SessionId]:
        """Return each session of which a time has come, the one that waited longest first."""
        due = [
            (times_s[0], session_id)
            for session_id, times_s in self._due_s.items()
            if times_s[0] <= now
        ]
        for _, session_id in due:
            left = [time_s for time_s in self._due_s.pop(session_id) if time_s > now]
            if left:
                self._due_s[session_id] = left
        return [session_id for _, session_id in sorted(due)]
