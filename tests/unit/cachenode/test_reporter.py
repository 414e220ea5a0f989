"""Tests of `cachenode.reporter`, against a router that only listens and orders."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from logging.handlers import QueueHandler

import grpc
import pytest
from grpc import aio

from cachenode.events import METRICS
from cachenode.node import CacheNode
from cachenode.reporter import STEADY_S, Reporter
from hearthkv.codec.membership import decode_node_message, encode_router_message
from hearthkv.core.block_io import MatchQuery, WriteStatus
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.clock import ManualClock
from hearthkv.core.routing import (
    DrainOrder,
    EventBatch,
    NodeEndpoint,
    NodeHello,
    NodeLoad,
    NodeMessage,
    PrefetchOrder,
    PullOrder,
    ResyncOrder,
    RouterMessage,
    SessionMoved,
    SnapshotPart,
    Welcome,
)
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier
from hearthkv.metrics import PrometheusMeters
from hearthkv.telemetry import Telemetry
from hearthkv.v1 import membership_pb2_grpc
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, Rig, open_node, prompt

ENDPOINT = NodeEndpoint(NodeId("node-a"), "127.0.0.1:1", epoch=9)


class ListeningRouter(membership_pb2_grpc.MembershipServicer):
    """Keeps what it hears; sends what a test puts into `orders`; None ends the stream."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[NodeMessage] = asyncio.Queue()
        self.orders: asyncio.Queue[RouterMessage | None] = asyncio.Queue()

    async def Join(self, request_iterator, context):  # noqa: N802
        await context.write(encode_router_message(Welcome(10)))
        listening = asyncio.create_task(self._listen(request_iterator))
        try:
            while (order := await self.orders.get()) is not None:
                await context.write(encode_router_message(order))
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the router goes")
        finally:
            listening.cancel()
            await asyncio.wait([listening])

    async def _listen(self, requests) -> None:
        async for request in requests:
            await self.heard.put(decode_node_message(request))

    async def next(self, kind: type) -> NodeMessage:
        """The next message of a kind; others are passed over."""
        while not isinstance(message := await self.heard.get(), kind):
            pass
        return message


@pytest.fixture
async def router() -> AsyncIterator[tuple[ListeningRouter, str]]:
    servicer = ListeningRouter()
    server = aio.server()
    membership_pb2_grpc.add_MembershipServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield servicer, f"127.0.0.1:{port}"
    await server.stop(grace=None)


class PacedReporter(Reporter):
    """A reporter that writes down how long it would pause, and does not pause."""

    def __init__(self, *args, **named) -> None:
        super().__init__(*args, **named)
        self.pauses_s: asyncio.Queue[float] = asyncio.Queue()

    def _pause_s(self) -> float:
        self.pauses_s.put_nowait(super()._pause_s())
        return 0.0


def reporter_of(node: CacheNode, address: str, clock: ManualClock) -> PacedReporter:
    return PacedReporter(
        node,
        ENDPOINT,
        address,
        clock=clock,
        jitter=lambda: 0.0,
        telemetry=Telemetry(logging.getLogger("test"), PrometheusMeters(METRICS)),
    )


@asynccontextmanager
async def reporting(
    address: str, clock: ManualClock | None = None
) -> AsyncIterator[tuple[Rig, dict[Tier, MemoryStore]]]:
    stores = {tier: MemoryStore(tier) for tier in (Tier.DRAM, Tier.SSD)}
    async with open_node(stores) as rig:
        reporter = reporter_of(rig.node, address, clock or ManualClock())
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(reporter.run())
            yield rig, stores
            running.cancel()


async def test_a_node_introduces_itself_with_all_that_it_holds(router):
    servicer, address = router
    async with reporting(address):
        assert await servicer.heard.get() == NodeHello(ENDPOINT, "0")
        part = await servicer.heard.get()
        assert part == SnapshotPart(b"", None, PackedKeys(b""), is_first=True, is_last=True)
        load = await servicer.heard.get()
        assert isinstance(load, NodeLoad)
        assert [usage.tier for usage in load.tiers] == [Tier.DRAM, Tier.SSD]


async def test_changes_follow_the_inventory_in_numbered_batches(router):
    servicer, address = router
    async with reporting(address) as (rig, _):
        await servicer.next(SnapshotPart)
        await rig.write(prompt(3))
        batch = await servicer.next(EventBatch)
        assert batch.sequence == 1
        keys = [key for event in batch.events for key in event.keys]
        assert keys == prompt(3)
        assert {event.tier for event in batch.events} == {Tier.DRAM}


async def test_a_heartbeat_comes_every_second(router):
    servicer, address = router
    clock = ManualClock()
    async with reporting(address, clock) as (rig, _):
        assert (await servicer.next(NodeLoad)).sequence == 0
        await rig.write(prompt(1))
        await servicer.next(EventBatch)
        assert servicer.heard.empty()
        clock.advance(1.0)
        assert (await servicer.next(NodeLoad)).sequence == 1


async def test_a_resync_gives_the_inventory_anew_and_counts_from_one(router):
    servicer, address = router
    async with reporting(address) as (rig, _):
        await servicer.next(SnapshotPart)
        await rig.write(prompt(2))
        await servicer.next(EventBatch)
        await servicer.orders.put(ResyncOrder(2, 5))
        part = await servicer.next(SnapshotPart)
        assert (part.namespace_id, part.tier, len(part.keys)) == (SPEC.namespace_id, Tier.DRAM, 2)
        await rig.write(prompt(1, name=1))
        assert (await servicer.next(EventBatch)).sequence == 1


async def test_a_prefetch_order_is_followed(router):
    servicer, address = router
    async with reporting(address) as (rig, stores):
        stores[Tier.DRAM].break_down()
        await rig.write(prompt(2))
        stores[Tier.DRAM].heal()
        await rig.node.look_at_stores()
        order = PrefetchOrder(SPEC.namespace_id, prompt(2)[-1])
        await servicer.next(SnapshotPart)
        await servicer.orders.put(order)
        await servicer.orders.put(ResyncOrder(1, 2))
        await servicer.next(SnapshotPart)  # so the order before it was followed
        await rig.node.settle()
        assert rig.blocks() == (2, 0)


async def test_a_pull_order_is_followed(router):
    servicer, address = router
    async with reporting(address) as (rig, _):
        await servicer.next(SnapshotPart)
        tip = prompt(2)[-1]
        await servicer.orders.put(PullOrder(SPEC.namespace_id, tip, 2, "unix:/not/for/peers"))
        await servicer.orders.put(ResyncOrder(1, 2))
        await servicer.next(SnapshotPart)  # so the order before it was followed
        assert rig.meters.value("cachenode_pulls_total", outcome="unavailable") == 1


async def test_a_drain_order_is_followed_and_told_at_once(router):
    servicer, address = router
    async with reporting(address):  # whose clock stands still
        assert not (await servicer.next(NodeLoad)).is_draining
        await servicer.orders.put(DrainOrder())
        assert (await servicer.next(NodeLoad)).is_draining
        await servicer.orders.put(DrainOrder(is_cancelled=True))
        assert not (await servicer.next(NodeLoad)).is_draining


async def test_sessions_that_moved_are_told_and_told_again_on_a_new_stream(router):
    servicer, address = router
    moved = SessionMoved(SessionId("s"), NodeId("node-b"))
    async with reporting(address) as (rig, _):
        await servicer.next(SnapshotPart)
        rig.node.drain.moved.add(moved.session_id, moved.node_id)
        assert await servicer.next(SessionMoved) == moved
        await servicer.orders.put(None)
        await servicer.next(NodeHello)
        assert await servicer.next(SessionMoved) == moved


async def test_a_heartbeat_says_what_the_engine_has_to_compute(router):
    servicer, address = router
    clock = ManualClock()
    async with reporting(address, clock) as (rig, _):
        assert (await servicer.next(NodeLoad)).uncached_tokens == 0
        keys = PackedKeys.join(prompt(9))
        rig.node.match(MatchQuery(SPEC.namespace_id, keys, SessionId("s")))
        clock.advance(1.0)
        assert (await servicer.next(NodeLoad)).uncached_tokens == 9 * 16


async def test_a_stream_that_breaks_is_opened_anew(router, caplog):
    servicer, address = router
    async with reporting(address):
        await servicer.next(NodeHello)
        await servicer.orders.put(None)
        assert await servicer.next(NodeHello) == NodeHello(ENDPOINT, "0")
    assert "the router goes" in caplog.text


@pytest.mark.parametrize(
    ("lasted_s", "pauses_s"),
    [(STEADY_S - 1, [0.1, 0.2, 0.4]), (STEADY_S, [0.1, 0.1, 0.1])],
    ids=["short", "steady"],
)
async def test_pauses_grow_while_streams_are_short(router, lasted_s: float, pauses_s: list[float]):
    servicer, address = router
    clock = ManualClock()
    async with open_node({}) as rig, asyncio.TaskGroup() as tasks:
        reporter = reporter_of(rig.node, address, clock)
        running = tasks.create_task(reporter.run())
        for pause_s in pauses_s:
            await servicer.next(SnapshotPart)
            await welcomed(reporter)
            clock.advance(lasted_s)
            await servicer.orders.put(None)
            assert await reporter.pauses_s.get() == pytest.approx(pause_s)
        running.cancel()


async def test_a_router_that_is_away_is_tried_every_second():
    async with open_node({}) as rig, asyncio.TaskGroup() as tasks:
        reporter = reporter_of(rig.node, "127.0.0.1:1", ManualClock())
        running = tasks.create_task(reporter.run())
        pauses_s = [await reporter.pauses_s.get() for _ in range(6)]
        running.cancel()
    assert pauses_s == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5, 0.5])


async def test_a_node_that_is_about_to_leave_says_so_before_all_that_it_holds(router):
    servicer, address = router
    async with open_node({}) as rig, asyncio.TaskGroup() as tasks:
        rig.node.drain.follow(DrainOrder())
        reporter = reporter_of(rig.node, address, ManualClock())
        running = tasks.create_task(reporter.run())
        said = [await servicer.heard.get() for _ in range(3)]
        running.cancel()
    assert [type(message) for message in said] == [NodeHello, NodeLoad, SnapshotPart]
    assert isinstance(said[1], NodeLoad)
    assert said[1].is_draining


async def welcomed(reporter: Reporter) -> None:
    async with asyncio.timeout(20):
        while reporter._welcomed_s is None:  # noqa: ASYNC110 - its answer comes on a stream
            await asyncio.sleep(0)


async def test_a_router_that_is_away_is_told_once():
    told: asyncio.Queue[logging.LogRecord] = asyncio.Queue()
    listener = QueueHandler(told)
    logging.getLogger("test").addHandler(listener)
    try:
        async with reporting("127.0.0.1:1") as (rig, _):
            assert "RouterLost" in (await told.get()).getMessage()
            assert await rig.write(prompt(1)) == [WriteStatus.STORED]
        assert told.empty()
    finally:
        logging.getLogger("test").removeHandler(listener)
