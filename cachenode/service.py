"""
The calls of a cache node.

Thin on purpose: a call decodes, asks the node and encodes. The two that carry payloads take and
give bytes, which `codec.block_stream` packs with one copy.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Final

import grpc
from grpc import aio

from cachenode.node import CacheNode
from hearthkv.codec import cache_node as codec
from hearthkv.codec import pulls as pulls_codec
from hearthkv.codec.block_stream import pack_read_step, unpack_write_step
from hearthkv.core.block_io import BlockChunk, WriteStart, WriteStep
from hearthkv.core.errors import BadInputError, BadRequestError, PeerTimeoutError
from hearthkv.grpc_server import Context, StatusTable, errors_as_status
from hearthkv.v1 import cache_node_pb2 as pb2
from hearthkv.v1 import cache_node_pb2_grpc

SERVICE_NAMES: tuple[str, ...] = ("hearthkv.v1.CacheNode",)

STATUS_OF: StatusTable = {
    BadInputError: grpc.StatusCode.INVALID_ARGUMENT,
    PeerTimeoutError: grpc.StatusCode.DEADLINE_EXCEEDED,
}
"""Trouble with a store is no error: it is told as the end of a read, or a block's status (I5)."""

STALL_S: Final = 30.0
"""Seconds for which a caller may stall in the middle of a read or a write. What it holds up are
room and copies that others could use, so a call ends here even if its own deadline is later."""


class CacheNodeService(cache_node_pb2_grpc.CacheNodeServicer):
    """What clients ask of a cache node."""

    def __init__(self, node: CacheNode, *, stall_s: float = STALL_S) -> None:
        self._node = node
        self._stall_s = stall_s

    async def Match(self, request: pb2.MatchRequest, context: Context) -> pb2.MatchResponse:
        """Say how many leading blocks of a prompt are held."""
        async with errors_as_status(context, STATUS_OF):
            matched = self._node.match(codec.decode_match_request(request))
            return codec.encode_match_response(matched)

    # The stub knows handlers that yield messages. This one writes bytes: it writes, because a
    # generator that a broken stream leaves behind is closed late and by another task.
    async def Read(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: pb2.ReadRequest, context: Context
    ) -> None:
        """Stream the longest held run of blocks."""
        async with errors_as_status(context, STATUS_OF):
            query = codec.decode_read_request(request)
            async with aclosing(self._node.read(query)) as steps:
                async for step in steps:
                    message = pack_read_step(step)
                    async with _no_stall("took", self._stall_s):
                        await context.write(message)

    async def Write(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request_iterator: AsyncIterator[bytes], context: Context
    ) -> pb2.WriteResponse:
        """Store blocks."""
        async with errors_as_status(context, STATUS_OF):
            steps = _steps(request_iterator, self._stall_s)
            start = await anext(steps, None)
            if not isinstance(start, WriteStart):
                raise BadRequestError("write begins without a start, must begin with one")
            statuses = await self._node.write(start, _chunks(steps))
            return codec.encode_write_response(statuses)

    async def Prefetch(
        self, request: pb2.PrefetchRequest, context: Context
    ) -> pb2.PrefetchResponse:
        """Have a prefix lifted from SSD to DRAM."""
        async with errors_as_status(context, STATUS_OF):
            queued = self._node.prefetch(codec.decode_prefetch_request(request))
            return pb2.PrefetchResponse(queued_blocks=queued)

    async def Pin(self, request: pb2.PinRequest, context: Context) -> pb2.PinResponse:
        """Keep a prefix from eviction for a while."""
        async with errors_as_status(context, STATUS_OF):
            return codec.encode_pin_response(self._node.pin(codec.decode_pin_request(request)))

    async def Unpin(
        self,
        request: pb2.UnpinRequest,
        context: Context,  # noqa: ARG002  # nothing can go wrong
    ) -> pb2.UnpinResponse:
        """End a pin."""
        return pb2.UnpinResponse(unpinned_blocks=self._node.unpin(request.pin_id))

    async def EndTurn(self, request: pb2.EndTurnRequest, context: Context) -> pb2.EndTurnResponse:
        """Learn how a session's turn ended."""
        async with errors_as_status(context, STATUS_OF):
            queued = self._node.end_turn(codec.decode_end_turn_request(request))
            return pb2.EndTurnResponse(queued_blocks=queued)

    async def Pull(
        self, request: pb2.PullRequest, context: Context
    ) -> AsyncIterator[pb2.PullResponse]:
        """Fetch a prefix from another node, and tell how far it has come."""
        async with errors_as_status(context, STATUS_OF):
            query = pulls_codec.decode_pull_request(request)
            async with aclosing(self._node.pulls.pull(query)) as news:
                async for progress in news:
                    yield pulls_codec.encode_pull_response(progress)

    async def Lineage(self, request: pb2.LineageRequest, context: Context) -> pb2.LineageResponse:
        """Give the keys of the prefix that ends in a block."""
        async with errors_as_status(context, STATUS_OF):
            lineage = self._node.lineage(pulls_codec.decode_lineage_request(request))
            return pulls_codec.encode_lineage_response(lineage)

    async def Drain(
        self,
        request: pb2.DrainRequest,
        context: Context,  # noqa: ARG002  # nothing can go wrong
    ) -> pb2.DrainResponse:
        """Hand the sessions and their blocks to other nodes, or stay after all."""
        left = self._node.drain.follow(pulls_codec.decode_drain_request(request))
        return pulls_codec.encode_drain_response(left)

    async def Drop(self, request: pb2.DropRequest, context: Context) -> pb2.DropResponse:
        """Forget blocks, a session or a namespace."""
        async with errors_as_status(context, STATUS_OF):
            dropped = self._node.drop(codec.decode_drop_request(request))
            return pb2.DropResponse(dropped_blocks=dropped)

    async def Describe(
        self,
        request: pb2.DescribeRequest,  # noqa: ARG002  # it has no fields
        context: Context,  # noqa: ARG002  # nothing can go wrong
    ) -> pb2.DescribeResponse:
        """Describe the node."""
        return codec.encode_describe_response(self._node.describe())


def add_to_server(service: CacheNodeService, server: aio.Server) -> None:
    """Have a server serve the contract."""
    (name,) = SERVICE_NAMES
    by_bytes = {
        "Read": grpc.unary_stream_rpc_method_handler(
            service.Read, request_deserializer=pb2.ReadRequest.FromString
        ),
        "Write": grpc.stream_unary_rpc_method_handler(
            service.Write, response_serializer=pb2.WriteResponse.SerializeToString
        ),
    }
    # gRPC looks among registered handlers, where the last one counts, then among generic ones,
    # where the first one does. Its older releases know the latter alone.
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, by_bytes),))
    cache_node_pb2_grpc.add_CacheNodeServicer_to_server(service, server)
    server.add_registered_method_handlers(name, by_bytes)


async def _steps(requests: AsyncIterator[bytes], stall_s: float) -> AsyncIterator[WriteStep]:
    """What a writer says, to the end."""
    while True:
        async with _no_stall("sent", stall_s):
            request = await anext(requests, None)
        if request is None:
            return
        yield unpack_write_step(request)


@asynccontextmanager
async def _no_stall(verb: str, stall_s: float) -> AsyncIterator[None]:
    """
    Bound a wait for the caller.

    Raises:
        PeerTimeoutError: If it takes longer than `stall_s`.
    """
    try:
        async with asyncio.timeout(stall_s):
            yield
    except TimeoutError:
        raise PeerTimeoutError(
            f"the caller {verb} nothing for {stall_s:g} s, must go on or end the call"
        ) from None


async def _chunks(steps: AsyncIterator[WriteStep]) -> AsyncIterator[BlockChunk]:
    async for step in steps:
        if isinstance(step, WriteStart):
            raise BadRequestError("write has a second start, must have one")
        for chunk in step:
            yield chunk
