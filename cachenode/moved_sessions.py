"""The sessions that were handed over, for the routers to learn, each at its own pace. Pure."""

from collections import OrderedDict
from typing import Final

from hearthkv.core.routing import SessionMoved
from hearthkv.core.session_id import NodeId, SessionId

SESSIONS_MAX: Final = 65_536
TAKEN_MAX: Final = 256


class MovedListener:
    """One router's place in the list."""

    def __init__(self, moved: "MovedSessions") -> None:
        self.is_open = False
        """Whether there is a stream to the router."""

        self._moved = moved
        self._told = 0

    @property
    def is_behind(self) -> bool:
        """Whether there is something to tell, and a stream to tell it on."""
        return self.is_open and self._moved.has_any_after(self._told)

    def open(self) -> None:
        """Begin anew, on a new stream: the router may have forgotten everything."""
        self.is_open = True
        self._told = 0

    def close(self) -> None:
        """Tell nothing, for there is no stream."""
        self.is_open = False

    def next(self) -> list[tuple[int, SessionMoved]]:
        """Return what is to be told next, with its number, at most TAKEN_MAX."""
        return self._moved.after(self._told)

    def told(self, number: int) -> None:
        """Learn that everything up to a number was told."""
        self._told = number


class MovedSessions:
    """Lists where sessions moved to; of each, and in all, only the last ones."""

    def __init__(self, sessions_max: int = SESSIONS_MAX) -> None:
        self.sequence = 0
        """Number of the last move."""

        self._sessions_max = sessions_max
        self._moves: OrderedDict[SessionId, tuple[int, NodeId]] = OrderedDict()
        self._listeners: list[MovedListener] = []

    @property
    def is_told(self) -> bool:
        """Whether every router that can be told was told everything."""
        return not any(listener.is_behind for listener in self._listeners)

    def listen(self) -> MovedListener:
        """Return a new listener."""
        listener = MovedListener(self)
        self._listeners.append(listener)
        return listener

    def dismiss(self, listener: MovedListener) -> None:
        """Forget a listener whose router is not spoken to any more."""
        self._listeners.remove(listener)

    def add(self, session_id: SessionId, node_id: NodeId) -> None:
        """Learn that a session moved."""
        self.sequence += 1
        self._moves[session_id] = (self.sequence, node_id)
        self._moves.move_to_end(session_id)
        if len(self._moves) > self._sessions_max:
            self._moves.popitem(last=False)

    def clear(self) -> None:
        """Forget all moves: the node stays, and its sessions with it."""
        self._moves.clear()

    def has_any_after(self, number: int) -> bool:
        """Whether there is a move behind a number."""
        return bool(self._moves) and next(reversed(self._moves.values()))[0] > number

    def after(self, number: int) -> list[tuple[int, SessionMoved]]:
        """Return the first moves behind a number, in order."""
        moves: list[tuple[int, SessionMoved]] = []
        for session_id, (at, node_id) in self._moves.items():
            if at > number:
                moves.append((at, SessionMoved(session_id, node_id)))
                if len(moves) == TAKEN_MAX:
                    break
        return moves
