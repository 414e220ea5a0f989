"""Tests of hearthkv/client/routers.py."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc
import pytest

from hearthkv.client.channels import Channels
from hearthkv.client.outcome import MissReason
from hearthkv.client.routers import Placed, Routers
from hearthkv.core.block_key import SampledKeys
from hearthkv.core.clock import ManualClock
from hearthkv.core.errors import PeerRefusedError, PeerUnreachableError
from hearthkv.core.routing import CacheHint, NodeEndpoint, PlacementReason, RouteQuery
from hearthkv.core.session_id import NodeId, SessionId
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.router import FakeRouter, endpoint
from tests.fakes.servers import dead_address, serving
from tests.unit.hearthkv.client.client_kit import (
    KEYS,
    PATIENT,
    SPEC,
    calls_of,
    router_client,
    until,
)

QUERY = RouteQuery(
    SessionId("s"), SPEC.namespace_id, SampledKeys.all_of(KEYS), CacheHint.REUSE, 22, 4
)
A, B = endpoint("a", "127.0.0.1:7500"), endpoint("b", "127.0.0.1:7501")
NO_NODE = Fail(grpc.StatusCode.UNAVAILABLE, is_answer=True)


def routers_at(
    channels: Channels,
    addresses: Sequence[str],
    clock: ManualClock | None = None,
    route_s: float = 20,
) -> Routers:
    calls, settings = calls_of(clock or ManualClock()), replace(PATIENT, route_s=route_s)
    clients = [router_client(channels, address, settings, calls) for address in addresses]
    return Routers(clients, calls, settings.watch_retry_s)


@asynccontextmanager
async def watching(routers: Routers) -> AsyncIterator[None]:
    task = asyncio.create_task(routers.watch())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def node_of(placed: Placed | MissReason) -> str:
    assert isinstance(placed, Placed), placed
    return placed.route.node.node_id


async def test_the_first_router_that_answers_decides(channels: Channels):
    with dead_address() as gone:
        async with serving(FakeRouter(A)) as first, serving(FakeRouter(B)) as second:
            placed = await routers_at(channels, [gone, first, second]).place(QUERY)
    assert node_of(placed) == "a"
    assert isinstance(placed, Placed)
    assert placed.is_matched


async def test_a_router_that_stalls_is_asked_once_until_its_cooldown_is_over(channels: Channels):
    stalled, well, clock = FakeRouter(A), FakeRouter(B), ManualClock()
    stalled.troubles["Route"] = Stall()
    async with serving(stalled) as first, serving(well) as second:
        routers = routers_at(channels, [first, second], clock, route_s=0.5)
        for _ in range(3):
            assert node_of(await routers.place(QUERY)) == "b"
        assert stalled.calls["Route"] == 1
        del stalled.troubles["Route"]
        clock.advance(1.0)
        assert node_of(await routers.place(QUERY)) == "a"


async def test_nobody_to_ask_is_a_miss(channels: Channels):
    assert await routers_at(channels, []).place(QUERY) is MissReason.NO_ROUTER


async def test_no_live_node_is_a_miss_where_all_routers_say_so(channels: Channels):
    empty = FakeRouter()
    empty.troubles["Route"] = NO_NODE
    async with serving(empty) as address:
        assert await routers_at(channels, [address]).place(QUERY) is MissReason.NO_NODE


async def test_a_router_without_nodes_does_not_hide_one_that_has_some(channels: Channels):
    empty = FakeRouter()
    empty.troubles["Route"] = NO_NODE
    async with serving(empty) as first, serving(FakeRouter(B)) as second:
        assert node_of(await routers_at(channels, [first, second]).place(QUERY)) == "b"


async def test_without_a_router_the_last_list_of_nodes_decides(channels: Channels):
    router = FakeRouter(A)
    async with serving(router) as address:
        routers = routers_at(channels, [address])
        async with watching(routers):
            await until(lambda: routers.view.nodes)
    placed = await routers.place(QUERY)
    assert node_of(placed) == "a"
    assert isinstance(placed, Placed)
    assert placed.route.reason is PlacementReason.HOME
    assert not placed.is_matched


async def test_a_router_that_refuses_a_turn_does_not_stop_it(channels: Channels):
    router = FakeRouter(A)
    router.troubles["Route"] = Fail(grpc.StatusCode.INTERNAL, is_answer=True)
    async with serving(router) as address:
        routers = routers_at(channels, [address])
        assert await routers.place(QUERY) is MissReason.NO_ROUTER
        routers.view.replace([NodeEndpoint(NodeId("v"), "127.0.0.1:7509")])
        assert node_of(await routers.place(QUERY)) == "v"


async def test_the_watch_goes_on_to_a_router_that_answers(channels: Channels):
    with dead_address() as gone:
        async with serving(FakeRouter(B)) as address:
            routers = routers_at(channels, [gone, address])
            async with watching(routers):
                await until(lambda: routers.view.nodes)
    assert [node.node_id for node in routers.view.nodes] == ["b"]


async def test_the_watch_comes_back_to_a_router_that_ended_it(channels: Channels):
    router = FakeRouter(A)
    router.watch_lists_max = 1
    async with serving(router) as address, watching(routers_at(channels, [address])):
        await until(lambda: router.calls["WatchNodes"] >= 3)


async def test_one_is_asked_until_one_answers(channels: Channels):
    with dead_address() as gone:
        async with serving(FakeRouter(A)) as address:
            routers = routers_at(channels, [gone, address])
            (node,) = await routers.ask_one(lambda router: router.list_nodes())
    assert node.endpoint.node_id == "a"


async def test_all_are_asked_and_those_that_answer_count(channels: Channels):
    with dead_address() as gone:
        async with serving(FakeRouter(A)) as first, serving(FakeRouter(B)) as second:
            routers = routers_at(channels, [first, gone, second])
            ended = await routers.ask_all(lambda router: router.end_session(SessionId("s")))
    assert ended == ["a", "b"]


async def test_where_none_answers_the_last_one_says_why(channels: Channels):
    router = FakeRouter(A)
    router.troubles["ListNodes"] = Fail(grpc.StatusCode.INTERNAL)
    with dead_address() as gone:
        async with serving(router) as address:
            routers = routers_at(channels, [gone, address])
            with pytest.raises(PeerRefusedError, match="INTERNAL"):
                await routers.ask_one(lambda router: router.list_nodes())
            with pytest.raises(PeerRefusedError, match="INTERNAL"):
                await routers.ask_all(lambda router: router.list_nodes())


async def test_a_router_that_does_not_know_a_node_sends_the_question_on(channels: Channels):
    stranger, knowing = FakeRouter(A), FakeRouter(B)
    async with serving(stranger) as first, serving(knowing) as second:
        routers = routers_at(channels, [first, second])
        node_id = NodeId("b")
        left = await routers.ask_one(lambda r: r.drain_node(node_id, is_cancelled=False))
    assert left == 2
    assert (stranger.drains, knowing.drains) == ([], [("b", False)])


async def test_where_none_is_named_the_error_says_so(channels: Channels):
    routers = routers_at(channels, [])
    with pytest.raises(PeerUnreachableError, match="no router is named"):
        await routers.ask_one(lambda router: router.list_nodes())
    with pytest.raises(PeerUnreachableError, match="no router is named"):
        await routers.ask_all(lambda router: router.list_nodes())
