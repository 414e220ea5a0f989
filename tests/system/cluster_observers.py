"""Compares what routers and nodes say, by bare calls that leave no trace. Not pure."""

import asyncio
import time
from array import array
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import TypeVar

from grpc import aio

from hearthkv.core.block_key import KeyChain, PackedKeys
from hearthkv.v1 import block_pb2, cache_node_pb2, router_pb2
from hearthkv.v1.cache_node_pb2_grpc import CacheNodeStub
from hearthkv.v1.router_pb2_grpc import RouterStub
from tests.system.growing_session import (
    NAMESPACE,
    NODES,
    RECONNECT_OPTIONS,
    ROUTERS,
    GrowingSession,
)
from tests.system.load_records import ViewRecord, tell

Answer = TypeVar("Answer")
Stub = TypeVar("Stub")

CALL_S = 1.0
"""Deadline of every call."""

VIEW_EVERY_S = 0.2


class Observers:
    """Connections to all routers and nodes; use it within an event loop."""

    def __init__(self) -> None:
        self._routers = {
            name: RouterStub(aio.insecure_channel(f"{name}:7400", options=RECONNECT_OPTIONS))
            for name in ROUTERS
        }
        self._nodes = {
            name: CacheNodeStub(aio.insecure_channel(f"{name}:7500", options=RECONNECT_OPTIONS))
            for name in NODES
        }

    async def watch(self, sessions: Mapping[int, GrowingSession]) -> None:
        """Compare what routers and nodes say, for ever, each time about another session."""
        for number in count():
            await asyncio.sleep(VIEW_EVERY_S)
            session = sessions[number % len(sessions)]
            tell(await self._view(_keys(session.tokens(session.blocks))))

    async def _view(self, keys: PackedKeys) -> ViewRecord:
        began_s = time.time()
        listed, claims = await asyncio.gather(
            _answers(self._routers, lambda stub: stub.ListNodes(_list_nodes(), timeout=CALL_S)),
            _answers(self._routers, lambda stub: stub.Lookup(_lookup(keys), timeout=CALL_S)),
        )
        described, matches = await asyncio.gather(
            _answers(self._nodes, lambda stub: stub.Describe(_describe(), timeout=CALL_S)),
            _answers(self._nodes, lambda stub: stub.Match(_match(keys), timeout=CALL_S)),
        )
        return ViewRecord(
            began_s=began_s,
            states={
                router: {node.endpoint.node_id: node.endpoint.state for node in answer.nodes}
                for router, answer in listed.items()
            },
            indexed={
                router: {node.endpoint.node_id: node.indexed_blocks for node in answer.nodes}
                for router, answer in listed.items()
            },
            held={
                node: sum(namespace.blocks for namespace in answer.namespaces)
                for node, answer in described.items()
            },
            claims={
                router: {match.node_id: match.matched_blocks for match in answer.matches}
                for router, answer in claims.items()
            },
            matches={node: answer.matched_blocks for node, answer in matches.items()},
        )


async def _answers(
    stubs: Mapping[str, Stub], ask: Callable[[Stub], Awaitable[Answer]]
) -> dict[str, Answer]:
    """Ask all at once; return what those say who answer."""

    async def one(stub: Stub) -> Answer | None:
        try:
            return await ask(stub)
        except aio.AioRpcError:
            return None

    answers = await asyncio.gather(*map(one, stubs.values()))
    return {name: said for name, said in zip(stubs, answers, strict=True) if said is not None}


def _keys(tokens: "array[int]") -> PackedKeys:
    return KeyChain(NAMESPACE.spec.namespace_id, NAMESPACE.block_size).keys_of(tokens)


def _packed(keys: PackedKeys) -> block_pb2.PackedKeys:
    return block_pb2.PackedKeys(keys=keys.packed, key_width=keys.width)


def _list_nodes() -> router_pb2.ListNodesRequest:
    return router_pb2.ListNodesRequest()


def _lookup(keys: PackedKeys) -> router_pb2.LookupRequest:
    return router_pb2.LookupRequest(namespace_id=NAMESPACE.spec.namespace_id, keys=_packed(keys))


def _describe() -> cache_node_pb2.DescribeRequest:
    return cache_node_pb2.DescribeRequest()


def _match(keys: PackedKeys) -> cache_node_pb2.MatchRequest:
    return cache_node_pb2.MatchRequest(namespace_id=NAMESPACE.spec.namespace_id, keys=_packed(keys))
