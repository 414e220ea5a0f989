"""The calls of the direct path to one cache node. Not pure."""

from grpc import aio

from hearthkv.client.deadline import Deadline
from hearthkv.client.peer_calls import PeerCalls, understood
from hearthkv.client.settings import ClientSettings
from hearthkv.codec import direct_path as codec
from hearthkv.core.block_io import WriteStatus
from hearthkv.core.direct_path import Attached, Located, LocateQuery, Reservation, ReserveQuery
from hearthkv.core.errors import PeerContractError, PeerRefusedError
from hearthkv.v1.direct_path_pb2_grpc import DirectPathStub

_NOT_SERVED = "UNIMPLEMENTED"
_STALE = "FAILED_PRECONDITION"


class DirectCalls:
    """
    What is said about stores. Every call ends within `stall_s`, or its deadline if that is sooner.

    Every method raises the PeerErrors of `PeerCalls.call`, and no other.
    """

    def __init__(
        self, address: str, channel: aio.Channel, calls: PeerCalls, settings: ClientSettings
    ) -> None:
        self.address = address
        self.calls = calls
        self._stub = DirectPathStub(channel)
        self._stall_s = settings.stall_s

    async def attach(self, proof: bytes, deadline: Deadline) -> Attached:
        """Ask where the proof is, or, with the right one, for access."""
        request = codec.encode_attach_request(proof)
        with self.calls.call(self.address):
            answer = await self._stub.Attach(request, timeout=self._wait_s(deadline))
            return codec.decode_attach_response(understood(answer))

    async def locate(self, query: LocateQuery, block_bytes: int, deadline: Deadline) -> Located:
        """Ask where a prefix lies."""
        request = codec.encode_locate_request(query)
        with self.calls.call(self.address):
            answer = await self._stub.Locate(request, timeout=self._wait_s(deadline))
            return codec.decode_locate_response(understood(answer), query, block_bytes)

    async def reserve(self, query: ReserveQuery, deadline: Deadline) -> Reservation:
        """Ask for room; every block before the first that goes through the node has an outcome."""
        request = codec.encode_reserve_request(query)
        with self.calls.call(self.address):
            answer = await self._stub.Reserve(request, timeout=self._wait_s(deadline))
            return codec.decode_reserve_response(understood(answer))

    async def commit(
        self, proof: bytes, reservation_id: str, copies: int, deadline: Deadline
    ) -> list[WriteStatus]:
        """Have the copies of a reservation held; return what became of each."""
        request = codec.encode_commit_request(proof, reservation_id)
        with self.calls.call(self.address):
            answer = await self._stub.Commit(request, timeout=self._wait_s(deadline))
            statuses = codec.decode_commit_response(understood(answer))
            if len(statuses) != copies:
                raise PeerContractError(
                    f"commit has {len(statuses)} statuses, must have {copies}, one a copy"
                )
            return statuses

    async def abort(self, proof: bytes, reservation_id: str, deadline: Deadline) -> None:
        """Give a reservation up."""
        request = codec.encode_abort_request(proof, reservation_id)
        with self.calls.call(self.address):
            understood(await self._stub.Abort(request, timeout=self._wait_s(deadline)))

    def _wait_s(self, deadline: Deadline) -> float:
        return deadline.wait_s(self.calls.clock.now(), self._stall_s)


def is_not_served(error: Exception) -> bool:
    """Whether a node answered that it has no direct path at all."""
    return isinstance(error, PeerRefusedError) and error.status == _NOT_SERVED


def is_stale(error: Exception) -> bool:
    """Whether a node answered that a proof is of an earlier start of it."""
    return isinstance(error, PeerRefusedError) and error.status == _STALE
