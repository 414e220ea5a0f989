"""A call that has a node fetch a prefix from another node, and tells how far it is. Not pure."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from hearthkv.client.peer_calls import PeerCalls, next_message
from hearthkv.codec.pulls import decode_pull_response
from hearthkv.core.errors import PeerContractError
from hearthkv.core.pulls import PullProgress

if TYPE_CHECKING:  # named in annotations only
    from grpc import aio

    from hearthkv.v1 import cache_node_pb2 as pb2


class PullCall:
    """
    One such call. It is under way from the start, and ends when it is closed.

    Args:
        address: The node that fetches.
        call: The stream of its answers.
        calls: The frame of calls to peers.
    """

    def __init__(
        self,
        address: str,
        call: "aio.UnaryStreamCall[pb2.PullRequest, pb2.PullResponse]",
        calls: PeerCalls,
    ) -> None:
        self._address = address
        self._call = call
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
            message = await next_message(self._call)
            if message is None:
                raise PeerContractError("pull ends without a reason, must give one")
            return decode_pull_response(message)

    def close(self) -> None:
        """Wait no longer; the pull goes on where others want it."""
        self._call.cancel()
