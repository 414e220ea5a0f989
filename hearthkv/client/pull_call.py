"""A call that has a node fetch a prefix from another node, and tells how far it is. Not pure."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from hearthkv.client.peer_calls import PeerCalls
from hearthkv.core.errors import PeerContractError
from hearthkv.core.pulls import PullProgress


class PullCall:
    """
    One such call. It is under way from the start, and ends when it is closed.

    Args:
        address: The node that fetches.
        next_progress: Gives its next answer; None where there is none.
        cancel: Ends the call.
        calls: The frame of calls to peers.
    """

    def __init__(
        self,
        address: str,
        next_progress: Callable[[], Awaitable[PullProgress | None]],
        cancel: Callable[[], object],
        calls: PeerCalls,
    ) -> None:
        self._address = address
        self._next_progress = next_progress
        self._cancel = cancel
        self._calls = calls

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def next(self) -> PullProgress:
        """
        Return how far the pull is, when there is news. Not to be called behind an end.

        Raises:
            PeerError: If the node does not do its part, or the call's time is over.
        """
        with self._calls.call(self._address):
            progress = await self._next_progress()
            if progress is None:
                raise PeerContractError("pull ends without a reason, must give one")
            return progress

    def close(self) -> None:
        """Wait no longer; the pull goes on where others want it."""
        self._cancel()
