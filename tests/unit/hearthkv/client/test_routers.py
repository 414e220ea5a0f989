"""Tests of hearthkv/client/routers.py."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import grpc
import pytest

from hearthkv.client.channels import Channels
from hearthkv.client.outcome import MissReason
from hearthkv.client.router_names import RouterNames
from hearthkv.client.routers import LATE_CALLS_MAX, Placed, Routers
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
    directory: dict[str, list[str]] | None = None,
    **limits: float,
) -> Routers:
    calls, settings = calls_of(clock or ManualClock()), replace(PATIENT, **limits)

    async def resolve(host: str, port: int) -> list[str]:
        return (directory or {})[host]

    return Routers(
        RouterNames(addresses, resolve),
        lambda address: router_client(channels, address, settings, calls),
        channels.close_one,
        calls,
        settings,
    )


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
        await until(lambda: not routers._late)  # it had its time
        assert node_of(await routers.place(QUERY)) == "b"
        assert stalled.calls["Route"] == 1
        del stalled.troubles["Route"]
        clock.advance(1.0)
        assert node_of(await routers.place(QUERY)) == "a"


async def test_a_router_that_hangs_leaves_the_others_their_share_of_the_time(channels: Channels):
    """All of `route_s` is for all of them, and the turn goes where the second one says."""
    hanging = [FakeRouter(A), FakeRouter(A)]
    for router in hanging:
        router.troubles["Route"] = Stall()
    async with AsyncExitStack() as stack:
        addresses = [
            await stack.enter_async_context(serving(router)) for router in (*hanging, FakeRouter(B))
        ]
        routers = routers_at(channels, addresses, route_s=2.0, hedge_s=100.0)
        assert node_of(await routers.place(QUERY)) == "b"
        await routers.close()


async def test_where_all_routers_hang_the_last_list_decides_in_time(channels: Channels):
    router = FakeRouter(A)
    router.troubles["Route"] = Stall()
    async with serving(router) as first:
        routers = routers_at(channels, [first], route_s=0.2)
        routers.view.replace([NodeEndpoint(NodeId("v"), "127.0.0.1:7509")])
        assert node_of(await routers.place(QUERY)) == "v"
        await routers.close()


async def test_a_router_that_owes_an_answer_is_asked_last(channels: Channels):
    slow, well = FakeRouter(A), FakeRouter(B)
    slow.troubles["Route"] = Stall()
    async with serving(slow) as first, serving(well) as second:
        routers = routers_at(channels, [first, second], hedge_s=0.05)
        for _ in range(3):
            assert node_of(await routers.place(QUERY)) == "b"
        assert (slow.calls["Route"], well.calls["Route"]) == (1, 3)
        await routers.close()
        assert slow.troubles["Route"].begun.is_set()


async def test_calls_that_are_left_behind_are_few(channels: Channels):
    slow = FakeRouter(A)
    slow.troubles["Route"] = Stall()
    async with serving(slow) as address:
        routers = routers_at(channels, [address], route_s=0.05)
        client = routers._clients[0]
        tasks = [asyncio.create_task(client.route(QUERY)) for _ in range(LATE_CALLS_MAX + 2)]
        routers._leave_behind(dict.fromkeys(tasks, client))
        await asyncio.wait(tasks)
        assert sum(task.cancelled() for task in tasks) == 2
        assert routers._late == {}


async def test_a_name_stands_for_all_routers_that_have_it(channels: Channels):
    async with serving(FakeRouter(B), "127.0.0.2:0") as address:
        port = address.rpartition(":")[2]
        directory = {"routers": ["127.0.0.1", "127.0.0.2"]}  # nobody listens on the first
        routers = routers_at(channels, [f"routers:{port}"], directory=directory)
        assert node_of(await routers.place(QUERY)) == "b"
        await routers.close()


async def test_a_name_is_resolved_anew_when_a_router_fails(channels: Channels):
    directory = {"router": ["127.0.0.3"]}
    async with serving(FakeRouter(B), "127.0.0.2:0") as address:
        port = address.rpartition(":")[2]
        routers = routers_at(channels, [f"router:{port}"], directory=directory)
        assert await routers.place(QUERY) is MissReason.NO_ROUTER
        directory["router"] = ["127.0.0.2"]
        routers._resolved_s = None
        await routers.place(QUERY)  # fails once more, and has the name resolved
        await until(lambda: routers._resolving is None or routers._resolving.done())
        assert node_of(await routers.place(QUERY)) == "b"
        assert [client.address for client in routers._clients] == [f"127.0.0.2:{port}"]
        assert list(channels._channels) == [f"127.0.0.2:{port}"]
        await routers.close()


async def test_a_resolver_that_hangs_costs_no_more_than_a_router(channels: Channels):
    asked = 0

    async def hang(host: str, port: int) -> list[str]:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()
        return []

    routers = routers_at(channels, ["routers:7400"], route_s=0.05)
    routers._names = RouterNames(["routers:7400"], hang)
    for _ in range(2):
        assert await routers.place(QUERY) is MissReason.NO_ROUTER
    assert asked == 1
    await routers.close()


async def test_the_watch_leaves_a_router_that_fails_a_turn(channels: Channels):
    first_router, second_router = FakeRouter(A), FakeRouter(B)
    async with serving(first_router) as first, serving(second_router) as second:
        routers = routers_at(channels, [first, second], route_s=0.2)
        async with watching(routers):
            await until(lambda: routers.view.nodes)
            first_router.troubles["Route"] = Stall()
            assert node_of(await routers.place(QUERY)) == "b"
            await until(lambda: [node.node_id for node in routers.view.nodes] == ["b"])
        await routers.close()


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
