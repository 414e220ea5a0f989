"""
A node that leaves under load: real nodes and clients, and a router that does as it is told.

The router here sends a session where it was last, until a node says that it moved. So what is
shown is the nodes' own doing.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from grpc import aio

import cachenode.server
from cachenode.settings import CacheNodeSettings
from hearthkv.client.kv import HearthKV, connect
from hearthkv.client.settings import ClientSettings
from hearthkv.codec.membership import decode_node_message, encode_router_message
from hearthkv.core.clock import SystemClock
from hearthkv.core.kv_cache_settings import KvCacheSettings
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.routing import CacheHint, NodeHello, NodeLoad, SessionMoved, Welcome
from hearthkv.v1 import membership_pb2_grpc, router_pb2
from hearthkv.v1.router_pb2_grpc import add_RouterServicer_to_server
from tests.fakes.router import FakeRouter, endpoint

SPEC = NamespaceSpec(b"n" * 16, block_size=4, block_bytes=20_000)
ON_SSD = KvCacheSettings(cache_capacity_gb=1, hbm_ratio=0, dram_ratio=0, ssd_ratio=1)
PATIENT = ClientSettings(route_s=20, match_s=20, stall_s=20, save_s=20, finish_s=20)

SESSIONS = 8
TURNS_BEFORE, TURNS_WHILE, TURNS_AFTER = 2, 8, 2
BLOCKS_A_TURN = 3


def node_settings(name: str, router_address: str, folder: Path) -> CacheNodeSettings:
    return CacheNodeSettings(
        node_id=name,
        listen="127.0.0.1:0",
        routers=[router_address],
        ssd_dir=str(folder / name),
        metrics_port=-1,
        drain_grace_s=60,
        drain_s=5,
    )


@dataclass
class Session:
    """Turns that extend each other; the engine is the test."""

    name: str
    blocks: int = 0
    computed: list[int] = field(default_factory=list)
    """Blocks that each turn had to compute although an earlier one had saved them."""

    nodes: list[str] = field(default_factory=list)

    def tokens(self) -> range:
        start = 1000 * int(self.name)
        return range(start, start + (self.blocks + BLOCKS_A_TURN) * SPEC.block_size)

    def payload(self, block: int) -> bytes:
        return f"{self.name}/{block}/".encode().ljust(SPEC.block_bytes, b"x")

    async def play(self, kv: HearthKV) -> None:
        turn = await kv.begin_turn(self.name, SPEC, self.tokens(), cache_hint=CacheHint.REUSE)
        buffer = bytearray(self.blocks * SPEC.block_bytes)
        loaded = await turn.load_into(buffer, blocks=self.blocks)
        expected = b"".join(map(self.payload, range(loaded.blocks)))
        assert buffer[: len(expected)] == expected
        self.computed.append(self.blocks - loaded.blocks)
        self.nodes.append(str(turn.node_id))
        first, self.blocks = loaded.blocks, self.blocks + BLOCKS_A_TURN
        turn.save(first, [self.payload(block) for block in range(first, self.blocks)])
        saved = await turn.finish(end="answer")
        assert saved.refused_blocks == 0, saved.miss


class StickyRouter(FakeRouter, membership_pb2_grpc.MembershipServicer):
    """Knows the nodes that joined, and where each session is."""

    def __init__(self) -> None:
        super().__init__()
        self.joined: dict[str, router_pb2.NodeEndpoint] = {}
        self.where: dict[str, str] = {}
        self.homes = itertools.cycle(("node-a", "node-a", "node-b", "node-c"))

    async def Route(self, request, context):  # noqa: N802
        session = request.session_id
        if session not in self.where:
            self.where[session] = next(self.homes)
        node = self.joined[self.where[session]]
        return router_pb2.RouteResponse(node=node, home_node_id=node.node_id)

    async def Join(self, request_iterator, context):  # noqa: N802
        await context.write(encode_router_message(Welcome(10)))
        node = router_pb2.NodeEndpoint()
        async for request in request_iterator:
            said = decode_node_message(request)
            if isinstance(said, NodeHello):
                node = endpoint(said.endpoint.node_id, said.endpoint.address)
                self.joined[node.node_id] = node
                self.nodes.append(node)
            elif isinstance(said, NodeLoad) and said.is_draining:
                node.state = router_pb2.NODE_STATE_DRAINING
            elif isinstance(said, SessionMoved):
                self.where[said.session_id] = said.node_id


@asynccontextmanager
async def routing(router: StickyRouter) -> AsyncIterator[str]:
    server = aio.server()
    add_RouterServicer_to_server(router, server)
    membership_pb2_grpc.add_MembershipServicer_to_server(router, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(grace=None)


@asynccontextmanager
async def cluster(
    folder: Path,
) -> AsyncIterator[tuple[HearthKV, asyncio.Task[None], asyncio.Event]]:
    """Three nodes, of which node-a serves in a task until an event is set, as by SIGTERM."""
    async with AsyncExitStack() as stack:
        router = StickyRouter()
        address = await stack.enter_async_context(routing(router))
        for name in ("node-b", "node-c"):
            settings = node_settings(name, address, folder)
            await stack.enter_async_context(
                cachenode.server.running(settings, ON_SSD, SystemClock())
            )
        stop = asyncio.Event()
        leaving = asyncio.create_task(
            cachenode.server.serve(node_settings("node-a", address, folder), ON_SSD, stop)
        )
        async with asyncio.timeout(60):
            while len(router.joined) < 3:  # noqa: ASYNC110 - nodes join by themselves
                await asyncio.sleep(0.02)
        kv = await stack.enter_async_context(connect(address, settings=PATIENT))
        yield kv, leaving, stop
        stop.set()
        await leaving


async def play(kv: HearthKV, sessions: Sequence[Session], turns: int) -> None:
    async def one(session: Session) -> None:
        for _ in range(turns):
            await session.play(kv)

    async with asyncio.TaskGroup() as group:
        for session in sessions:
            group.create_task(one(session))


async def test_no_token_is_computed_again_because_a_node_leaves(tmp_path: Path):
    sessions = [Session(str(name)) for name in range(SESSIONS)]
    async with cluster(tmp_path) as (kv, leaving, stop):
        await play(kv, sessions, TURNS_BEFORE)
        assert [session.nodes[-1] for session in sessions].count("node-a") == SESSIONS // 2
        stop.set()
        await play(kv, sessions, TURNS_WHILE)
        async with asyncio.timeout(60):
            await leaving
        await play(kv, sessions, TURNS_AFTER)
    assert {node for session in sessions for node in session.nodes[-TURNS_AFTER:]} == {
        "node-b",
        "node-c",
    }
    assert [sum(session.computed) for session in sessions] == [0] * SESSIONS
