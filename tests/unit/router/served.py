"""A router that serves on a free port of this machine, and a node that speaks to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from grpc import aio

from hearthkv.codec import membership as codec
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.clock import ManualClock
from hearthkv.core.routing import (
    EventBatch,
    EventsAck,
    NodeEndpoint,
    NodeHello,
    NodeMessage,
    RouterMessage,
    SnapshotPart,
    Welcome,
)
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from hearthkv.v1 import block_pb2, router_pb2
from hearthkv.v1.membership_pb2_grpc import MembershipStub
from hearthkv.v1.router_pb2_grpc import RouterStub
from router.server import RunningRouter, running
from router.settings import RouterSettings

NS = b"n" * 16
KEYS = PackedKeys(b"".join(index.to_bytes(16) for index in range(100)))
REUSE = router_pb2.CACHE_HINT_REUSE


class FakeNode:
    """A node's end of a membership stream."""

    def __init__(self, channel: aio.Channel, node_id: str, epoch: int):
        self.hello = NodeHello(
            NodeEndpoint(NodeId(node_id), f"{node_id}:7500", f"http://{node_id}:8000", epoch)
        )
        self.call = MembershipStub(channel).Join()

    async def say(self, message: NodeMessage) -> None:
        await self.call.write(codec.encode_node_message(message))

    async def hear(self) -> RouterMessage:
        return codec.decode_router_message(await self.call.read())

    async def join(self, *held: tuple[Tier, PackedKeys]) -> None:
        """Say hello, wait for the welcome, and report what is held."""
        await self.say(self.hello)
        assert isinstance(await self.hear(), Welcome)
        await self.report(*held)

    async def report(self, *held: tuple[Tier, PackedKeys]) -> None:
        parts = held or ((None, PackedKeys(b"")),)
        for number, (tier, keys) in enumerate(parts):
            await self.say(
                SnapshotPart(NS if tier else b"", tier, keys, number == 0, number == len(parts) - 1)
            )


@dataclass
class Served:
    """A router that serves, a channel to it, and the clock that it goes by."""

    router: RunningRouter
    channel: aio.Channel
    clock: ManualClock

    @property
    def stub(self) -> RouterStub:
        return RouterStub(self.channel)

    def node(self, node_id: str = "a", epoch: int = 1) -> FakeNode:
        return FakeNode(self.channel, node_id, epoch)

    async def metrics(self) -> dict[str, float]:
        """What Prometheus would read: sample with labels -> value."""
        assert self.router.metrics_address is not None
        host, _, port = self.router.metrics_address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        _, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        lines = (line for line in body.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    async def nodes_become(self, expected: dict[str, int]) -> None:
        """Wait until the watched list shows these nodes in these states: 1 live, 2 suspect."""
        async for response in self.stub.WatchNodes(router_pb2.WatchNodesRequest()):
            if {node.node_id: node.state for node in response.nodes} == expected:
                return


@asynccontextmanager
async def serving(**changed: object) -> AsyncIterator[Served]:
    """Run a router with some settings changed, by default without a metrics port."""
    settings = RouterSettings(**{"listen": "127.0.0.1:0", "metrics_port": -1} | changed)
    clock = ManualClock()
    async with (
        running(settings, clock) as router,
        aio.insecure_channel(router.address) as channel,
    ):
        yield Served(router, channel, clock)


def turn(session_id: str = "s", **changed: object) -> router_pb2.RouteRequest:
    fields: dict[str, object] = {
        "session_id": session_id,
        "namespace_id": NS,
        "keys": block_pb2.PackedKeys(keys=KEYS.packed, key_width=16),
        "cache_hint": REUSE,
        "prompt_tokens": 1600,
        "block_size": 16,
    }
    return router_pb2.RouteRequest(**(fields | changed))


async def settled(node) -> None:
    """Wait until the router has taken in all that a node said: it acknowledges in order."""
    await node.say(EventBatch(1))
    assert await node.hear() == EventsAck(1)


async def joined(served: Served, node_id: str = "a", *held):
    """A node that joined and whose inventory the router knows."""
    node = served.node(node_id)
    await node.join(*held)
    await settled(node)
    return node
