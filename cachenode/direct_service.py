"""
The calls of the direct path.

Thin on purpose: a call decodes, has the proof checked, asks the node and encodes.
"""

import grpc

from cachenode.direct_access import DirectAccess
from cachenode.node import CacheNode
from hearthkv.codec import direct_path as codec
from hearthkv.core.errors import BadInputError, ReservationOverError, StaleProofError
from hearthkv.grpc_server import Context, StatusTable, errors_as_status
from hearthkv.v1 import direct_path_pb2 as pb2
from hearthkv.v1 import direct_path_pb2_grpc

SERVICE_NAME = "hearthkv.v1.DirectPath"

STATUS_OF: StatusTable = {
    BadInputError: grpc.StatusCode.INVALID_ARGUMENT,
    StaleProofError: grpc.StatusCode.FAILED_PRECONDITION,
    ReservationOverError: grpc.StatusCode.NOT_FOUND,
}
"""Trouble with a store is no error: it is told as the end of a prefix, or a block's status (I5)."""


class DirectPathService(direct_path_pb2_grpc.DirectPathServicer):
    """What clients on the node's host ask of it."""

    def __init__(self, node: CacheNode, access: DirectAccess) -> None:
        self._node = node
        self._access = access

    async def Attach(self, request: pb2.AttachRequest, context: Context) -> pb2.AttachResponse:
        """Open the stores to a client that has the proof, or tell where it is."""
        async with errors_as_status(context, STATUS_OF):
            return codec.encode_attach_response(self._access.attach(request.proof))

    async def Locate(self, request: pb2.LocateRequest, context: Context) -> pb2.LocateResponse:
        """Say where the longest held prefix of a prompt lies."""
        async with errors_as_status(context, STATUS_OF):
            self._access.check(request.proof)
            located = self._node.locate(codec.decode_locate_request(request))
            return codec.encode_locate_response(located)

    async def Reserve(self, request: pb2.ReserveRequest, context: Context) -> pb2.ReserveResponse:
        """Keep room for blocks that follow each other."""
        async with errors_as_status(context, STATUS_OF):
            self._access.check(request.proof)
            reservation = self._node.reserve(codec.decode_reserve_request(request))
            return codec.encode_reserve_response(reservation)

    async def Commit(self, request: pb2.CommitRequest, context: Context) -> pb2.CommitResponse:
        """Hold the blocks of a reservation."""
        async with errors_as_status(context, STATUS_OF):
            self._access.check(request.proof)
            return codec.encode_commit_response(await self._node.commit(request.reservation_id))

    async def Abort(self, request: pb2.AbortRequest, context: Context) -> pb2.AbortResponse:
        """Give a reservation up."""
        async with errors_as_status(context, STATUS_OF):
            self._access.check(request.proof)
            await self._node.abort(request.reservation_id)
            return pb2.AbortResponse()
