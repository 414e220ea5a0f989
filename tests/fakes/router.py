"""A router that sends every turn to one node, and can be told to misbehave."""

import asyncio
from collections import Counter

import grpc

from hearthkv.v1 import block_pb2, router_pb2
from hearthkv.v1.router_pb2_grpc import RouterServicer
from tests.fakes.misbehaviour import Fail, Stall, act


def endpoint(node_id: str, address: str, **fields: object) -> router_pb2.NodeEndpoint:
    """A live node."""
    defaults = {"weight": 1.0, "state": router_pb2.NODE_STATE_LIVE}
    return router_pb2.NodeEndpoint(node_id=node_id, address=address, **{**defaults, **fields})


class FakeRouter(RouterServicer):
    """
    Knows some nodes and prefers the first of them.

    `troubles` names calls that stall or fail. Notify `changed` to send the list of nodes again;
    a watch ends after `watch_lists_max` of them.
    """

    def __init__(self, *nodes: router_pb2.NodeEndpoint, matched_blocks: int = 0) -> None:
        self.nodes = list(nodes)
        self.matched_blocks = matched_blocks
        self.reason = router_pb2.PLACEMENT_REASON_SESSION
        self.pull_from: list[router_pb2.PullSource] = []
        self.calls: Counter[str] = Counter()
        self.troubles: dict[str, Stall | Fail] = {}
        self.last_route: router_pb2.RouteRequest | None = None
        self.ended: list[str] = []
        self.drains: list[tuple[str, bool]] = []
        self.changed = asyncio.Condition()
        self.watch_lists_max = 1000

    async def Route(self, request, context):  # noqa: N802
        await self._enter("Route", context)
        self.last_route = request
        matched = [block_pb2.TierBlocks(tier=block_pb2.TIER_DRAM, blocks=self.matched_blocks)]
        return router_pb2.RouteResponse(
            node=self.nodes[0],
            matched_blocks=self.matched_blocks,
            matched_by_tier=matched if self.matched_blocks else [],
            home_node_id=self.nodes[-1].node_id,
            reason=self.reason,
            pull_from=self.pull_from,
        )

    async def Lookup(self, request, context):  # noqa: N802
        await self._enter("Lookup", context)
        matches = [
            router_pb2.NodeMatch(
                node_id=node.node_id,
                matched_blocks=1,
                matched_by_tier=[block_pb2.TierBlocks(tier=block_pb2.TIER_SSD, blocks=1)],
            )
            for node in self.nodes
        ]
        return router_pb2.LookupResponse(matches=matches)

    async def EndSession(self, request, context):  # noqa: N802
        await self._enter("EndSession", context)
        self.ended.append(request.session_id)
        return router_pb2.EndSessionResponse(node_id=self.nodes[0].node_id if self.nodes else "")

    async def WatchNodes(self, request, context):  # noqa: N802
        await self._enter("WatchNodes", context)
        for _ in range(self.watch_lists_max):
            yield router_pb2.WatchNodesResponse(version=1, nodes=self.nodes)
            if self.watch_lists_max > 1:
                async with self.changed:
                    await self.changed.wait()

    async def ListNodes(self, request, context):  # noqa: N802
        await self._enter("ListNodes", context)
        statuses = [router_pb2.NodeStatus(endpoint=node, sessions=2) for node in self.nodes]
        return router_pb2.ListNodesResponse(nodes=statuses)

    async def DrainNode(self, request, context):  # noqa: N802
        await self._enter("DrainNode", context)
        if request.node_id not in {node.node_id for node in self.nodes}:
            await act(Fail(grpc.StatusCode.NOT_FOUND, is_answer=True), context)
        self.drains.append((request.node_id, request.is_cancelled))
        return router_pb2.DrainNodeResponse(sessions=2)

    async def ListSessions(self, request, context):  # noqa: N802
        await self._enter("ListSessions", context)
        session = router_pb2.SessionStatus(session_id="s", node_id="n", turns=request.limit)
        return router_pb2.ListSessionsResponse(sessions=[session], sessions_total=1)

    async def _enter(self, name: str, context) -> None:
        self.calls[name] += 1
        if name in self.troubles:
            await act(self.troubles[name], context)
