"""
The calls of a router: Router for clients, Membership for nodes.

Thin on purpose: a call decodes, asks the cluster, reports and encodes.
"""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType

import grpc

from hearthkv.codec import membership as membership_codec
from hearthkv.codec import router as codec
from hearthkv.core.clock import Clock
from hearthkv.core.errors import (
    BadInputError,
    HearthKVError,
    LimitError,
    NoNodeError,
    SettlingError,
    StreamEndedError,
    UnknownNodeError,
)
from hearthkv.core.session_id import SessionId
from hearthkv.grpc_server import Context, StatusTable, abort, reason_of
from hearthkv.telemetry import Telemetry
from hearthkv.v1 import membership_pb2, membership_pb2_grpc, router_pb2, router_pb2_grpc
from router import events
from router.cluster import Cluster, Routed
from router.node_watch import NodeStream, NodeWatch
from router.pieces import pieces_of

SERVICE_NAMES = ("hearthkv.v1.Router", "hearthkv.v1.Membership")

STATUS_OF: StatusTable = {
    BadInputError: grpc.StatusCode.INVALID_ARGUMENT,
    LimitError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    NoNodeError: grpc.StatusCode.UNAVAILABLE,
    # Not UNAVAILABLE, which says that no node is live: whoever gets this asks somebody else.
    SettlingError: grpc.StatusCode.FAILED_PRECONDITION,
    StreamEndedError: grpc.StatusCode.ABORTED,
    UnknownNodeError: grpc.StatusCode.NOT_FOUND,
}


class _Answering:
    """
    Reports an error of the body, and ends the call with its status.

    A class of its own, since a context manager made of a generator takes a tenth of a `Route`.
    """

    def __init__(self, call: str, context: Context, telemetry: Telemetry) -> None:
        self._call = call
        self._context = context
        self._telemetry = telemetry

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, HearthKVError):
            refused = events.CallRefused(self._call, reason_of(type(error)), str(error))
            self._telemetry.emit(refused)
            await abort(self._context, STATUS_OF, error)


class RouterService(router_pb2_grpc.RouterServicer):
    """
    What clients ask of a router.

    Args:
        cluster: Decides.
        watch: The streams of the nodes, for orders to them.
        clock: The hour.
        telemetry: Where events go.
        settle_s: Seconds from now in which no turn is placed.
    """

    def __init__(
        self,
        cluster: Cluster,
        watch: NodeWatch,
        clock: Clock,
        telemetry: Telemetry,
        *,
        settle_s: float = 0.0,
    ) -> None:
        self._cluster = cluster
        self._watch = watch
        self._clock = clock
        self._telemetry = telemetry
        self._settled_s = clock.now() + settle_s

    async def Route(
        self, request: router_pb2.RouteRequest, context: Context
    ) -> router_pb2.RouteResponse:
        """Choose the node for one turn, and have it fetch and lift the blocks that it will want."""
        async with _Answering("Route", context, self._telemetry):
            query = codec.decode_route_request(request)
            now = self._clock.now()
            if now < self._settled_s:
                raise SettlingError(
                    f"router places turns in {self._settled_s - now:.1f} s, when its nodes are back"
                )
            routed = self._cluster.route(query, now)
            route = routed.route
            if routed.prefetch is not None:
                self._watch.order_prefetch(route.node.node_id, routed.prefetch)
            if routed.pull is not None:
                self._watch.order_pull(route.node.node_id, routed.pull, events.PullCause.TURN)
            # The caller has its answer before the line about it is written.
            asyncio.get_running_loop().call_soon(self._report, query.session_id, routed)
            return codec.encode_route_response(route)

    def _report(self, session_id: SessionId, routed: Routed) -> None:
        route = routed.route
        self._telemetry.emit(
            events.PlacementMade(
                session_id=session_id,
                node_id=route.node.node_id,
                home_node_id=route.home_node_id,
                reason=route.reason,
                prompt_tokens=routed.prompt_tokens,
                matched_tokens=routed.matched_tokens,
                hit_ratios=self._cluster.totals.hit_ratios(),
            )
        )

    async def Lookup(
        self, request: router_pb2.LookupRequest, context: Context
    ) -> router_pb2.LookupResponse:
        """Say who holds how much of a prompt."""
        async with _Answering("Lookup", context, self._telemetry):
            matches = self._cluster.lookup(codec.decode_lookup_request(request))
            return codec.encode_lookup_response(matches)

    async def EndSession(
        self, request: router_pb2.EndSessionRequest, context: Context
    ) -> router_pb2.EndSessionResponse:
        """Forget where a session's turns went."""
        async with _Answering("EndSession", context, self._telemetry):
            node_id = self._cluster.end_session(
                codec.decode_end_session_request(request), self._clock.now()
            )
            return router_pb2.EndSessionResponse(node_id=node_id or "")

    async def WatchNodes(
        self,
        request: router_pb2.WatchNodesRequest,  # noqa: ARG002  # it has no fields
        context: Context,  # noqa: ARG002  # nothing can go wrong
    ) -> AsyncIterator[router_pb2.WatchNodesResponse]:
        """Stream the list of nodes, at once and after every change."""
        async for version, nodes in self._watch.node_lists():
            yield codec.encode_watch_response(version, nodes)

    async def ListNodes(
        self,
        request: router_pb2.ListNodesRequest,  # noqa: ARG002  # it has no fields
        context: Context,  # noqa: ARG002  # nothing can go wrong
    ) -> router_pb2.ListNodesResponse:
        """List the nodes with their load."""
        return codec.encode_list_nodes_response(self._cluster.node_statuses(self._clock.now()))

    async def DrainNode(
        self, request: router_pb2.DrainNodeRequest, context: Context
    ) -> router_pb2.DrainNodeResponse:
        """Have a node leave, or stay after all."""
        async with _Answering("DrainNode", context, self._telemetry):
            node_id, is_cancelled = codec.decode_drain_node_request(request)
            self._watch.order_drain(node_id, is_cancelled=is_cancelled)
            sessions = self._cluster.sessions.count_on(node_id)
            return router_pb2.DrainNodeResponse(sessions=sessions)

    async def ListSessions(
        self, request: router_pb2.ListSessionsRequest, context: Context
    ) -> router_pb2.ListSessionsResponse:
        """List the sessions that were routed last."""
        async with _Answering("ListSessions", context, self._telemetry):
            limit = codec.decode_list_sessions_request(request)
            statuses = self._cluster.session_statuses(limit, self._clock.now())
            return codec.encode_list_sessions_response(statuses, len(self._cluster.sessions))


class MembershipService(membership_pb2_grpc.MembershipServicer):
    """What nodes say to a router."""

    def __init__(self, watch: NodeWatch, telemetry: Telemetry) -> None:
        self._watch = watch
        self._telemetry = telemetry

    # The stub knows handlers that yield their answers. This one writes them instead, because a
    # generator that a broken stream leaves behind is closed late and by another task.
    async def Join(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request_iterator: AsyncIterator[membership_pb2.JoinRequest], context: Context
    ) -> None:
        """Converse with a node until either side ends the stream."""
        stream = self._watch.open()
        try:
            async with _Answering("Join", context, self._telemetry):
                await self._converse(stream, request_iterator, context)
        finally:
            self._watch.lose(stream)

    async def _converse(
        self,
        stream: NodeStream,
        requests: AsyncIterator[membership_pb2.JoinRequest],
        context: Context,
    ) -> None:
        """Listen and answer until one of them ends, or the router closes the stream."""
        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(self._listen(stream, requests))
            ends = {
                listening,
                tasks.create_task(self._answer(stream, context)),
                tasks.create_task(stream.closed()),
            }
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in ends:
                task.cancel()
        if not listening.cancelled() and (error := listening.result()) is not None:
            raise error
        if stream.end_reason:
            raise StreamEndedError(stream.end_reason)

    async def _listen(
        self, stream: NodeStream, requests: AsyncIterator[membership_pb2.JoinRequest]
    ) -> HearthKVError | None:
        """Take in what the node says, to the end; return what was wrong with it, if anything."""
        try:
            async for request in requests:
                for piece in pieces_of(membership_codec.decode_node_message(request)):
                    self._watch.hear(stream, piece)
                    await asyncio.sleep(0)  # turns are placed meanwhile, whatever a node sends
        except HearthKVError as error:
            return error
        return None

    async def _answer(self, stream: NodeStream, context: Context) -> None:
        """Send the node its answers, until cancelled."""
        while True:
            answer = await stream.next_answer()
            await context.write(membership_codec.encode_router_message(answer))
