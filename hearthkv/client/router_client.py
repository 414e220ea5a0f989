"""The calls to one router. Not pure."""

import asyncio
from collections.abc import Callable, Sequence

import grpc
from grpc import aio

from hearthkv.client.peer_calls import PeerCalls, next_message, understood
from hearthkv.client.settings import ClientSettings
from hearthkv.codec import router as codec
from hearthkv.core.block_io import KeysQuery
from hearthkv.core.errors import PeerContractError
from hearthkv.core.routing import (
    NodeEndpoint,
    NodeMatch,
    NodeStatus,
    Route,
    RouteQuery,
    SessionStatus,
)
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.v1.router_pb2_grpc import RouterStub


class RouterClient:
    """
    One router. Every call ends within its deadline.

    Every method raises the PeerErrors of `PeerCalls.call`, and no other.
    """

    def __init__(
        self, address: str, channel: aio.Channel, calls: PeerCalls, settings: ClientSettings
    ) -> None:
        self.address = address
        self._stub = RouterStub(channel)
        self._calls = calls
        self._settings = settings

    async def route(self, query: RouteQuery) -> Route:
        """Have a node chosen for a turn."""
        request = codec.encode_route_request(query)
        with self._calls.call(self.address):
            answer = await self._stub.Route(request, timeout=self._settings.route_s)
            route = codec.decode_route_response(understood(answer))
            if route.matched.total > query.keys.blocks:
                raise PeerContractError(
                    f"router matches {route.matched.total} blocks, must be <= {query.keys.blocks}"
                )
            return route

    async def lookup(self, query: KeysQuery) -> list[NodeMatch]:
        """Ask who holds how much of a prompt, longest match first."""
        request = codec.encode_lookup_request(query)
        with self._calls.call(self.address):
            answer = await self._stub.Lookup(request, timeout=self._settings.call_s)
            return codec.decode_lookup_response(understood(answer))

    async def end_session(self, session_id: SessionId) -> NodeId | None:
        """Have a session forgotten; return the node of its last turn, None if not known."""
        request = codec.encode_end_session_request(session_id)
        with self._calls.call(self.address):
            answer = await self._stub.EndSession(request, timeout=self._settings.call_s)
            return codec.decode_end_session_response(understood(answer))

    async def list_nodes(self) -> list[NodeStatus]:
        """List the nodes with their load."""
        request = codec.encode_list_nodes_request()
        with self._calls.call(self.address):
            answer = await self._stub.ListNodes(request, timeout=self._settings.call_s)
            return codec.decode_list_nodes_response(understood(answer))

    async def drain_node(self, node_id: NodeId, *, is_cancelled: bool) -> int:
        """Have a node leave, or stay after all; return the sessions that it has."""
        request = codec.encode_drain_node_request(node_id, is_cancelled=is_cancelled)
        with self._calls.call(self.address):
            answer = await self._stub.DrainNode(request, timeout=self._settings.call_s)
            return understood(answer).sessions

    async def list_sessions(self, limit: int) -> list[SessionStatus]:
        """List the sessions that were routed last; 0 means as many as the router thinks fit."""
        request = codec.encode_list_sessions_request(limit)
        with self._calls.call(self.address):
            answer = await self._stub.ListSessions(request, timeout=self._settings.call_s)
            return codec.decode_list_sessions_response(understood(answer))

    async def watch(self, replace: Callable[[Sequence[NodeEndpoint]], None]) -> None:
        """
        Hand every list of nodes to `replace` as it comes; return when the watch is to be renewed.

        The first list must come within `call_s`; later ones come when something changes.
        """
        with self._calls.call(self.address):
            call = self._stub.WatchNodes(
                codec.encode_watch_request(), timeout=self._settings.watch_s
            )
            try:
                async with asyncio.timeout(self._settings.call_s):
                    message = await next_message(call)
                while message is not None:
                    replace(codec.decode_watch_response(message))
                    self._calls.answered(self.address)
                    message = await next_message(call)
            except aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise
            finally:
                call.cancel()
