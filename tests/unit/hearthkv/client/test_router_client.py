"""Tests of hearthkv/client/router_client.py."""

import asyncio
from dataclasses import replace

import pytest

from hearthkv.client.channels import Channels
from hearthkv.core.block_io import KeysQuery
from hearthkv.core.block_key import SampledKeys
from hearthkv.core.clock import ManualClock
from hearthkv.core.errors import PeerContractError, PeerTimeoutError, PeerUnreachableError
from hearthkv.core.routing import CacheHint, NodeEndpoint, PlacementReason, RouteQuery
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import TierCounts
from tests.fakes.misbehaviour import Stall
from tests.fakes.router import FakeRouter, endpoint
from tests.fakes.servers import dead_address, serving
from tests.unit.hearthkv.client.client_kit import (
    IMPATIENT,
    KEYS,
    PATIENT,
    SPEC,
    calls_of,
    router_client,
)

QUERY = RouteQuery(
    SessionId("s"), SPEC.namespace_id, SampledKeys.all_of(KEYS), CacheHint.REUSE, 22, 4
)
A = endpoint("a", "127.0.0.1:7500", engine_url="http://a")


async def test_a_turn_is_routed(channels: Channels):
    router = FakeRouter(A, endpoint("b", "127.0.0.1:7501"), matched_blocks=3)
    async with serving(router) as address:
        route = await router_client(channels, address).route(QUERY)
    assert (route.node.node_id, route.node.engine_url) == ("a", "http://a")
    assert (route.matched, route.home_node_id) == (TierCounts(dram=3), "b")
    assert route.reason is PlacementReason.SESSION
    assert router.last_route is not None
    assert router.last_route.keys.keys == KEYS.packed
    assert router.last_route.prompt_tokens == 22


async def test_a_match_longer_than_the_prompt_breaks_the_contract(channels: Channels):
    async with serving(FakeRouter(A, matched_blocks=6)) as address:
        with pytest.raises(PeerContractError, match="matches 6 blocks, must be <= 5"):
            await router_client(channels, address).route(QUERY)


async def test_the_calls_for_people_are_answered(channels: Channels):
    async with serving(FakeRouter(A)) as address:
        client = router_client(channels, address)
        (match,) = await client.lookup(KeysQuery(SPEC.namespace_id, KEYS))
        (node,) = await client.list_nodes()
        (session,) = await client.list_sessions(7)
        ended = await client.end_session(SessionId("s"))
    assert (match.node_id, match.matched) == ("a", TierCounts(ssd=1))
    assert (node.endpoint.node_id, node.sessions) == ("a", 2)
    assert (session.session_id, session.turns) == ("s", 7)
    assert ended == "a"


async def test_every_list_of_nodes_is_handed_on(channels: Channels):
    router, lists = FakeRouter(A), asyncio.Queue[list[NodeEndpoint]]()
    async with serving(router) as address:
        client = router_client(channels, address)
        task = asyncio.create_task(client.watch(lists.put_nowait))
        first = await lists.get()
        router.nodes.append(endpoint("b", "127.0.0.1:7501"))
        async with router.changed:
            router.changed.notify_all()
        second = await lists.get()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [[node.node_id for node in nodes] for nodes in (first, second)] == [["a"], ["a", "b"]]


async def test_a_watch_whose_time_is_over_ends_in_peace(channels: Channels):
    calls, lists = calls_of(ManualClock()), []
    async with serving(FakeRouter(A)) as address:
        client = router_client(channels, address, replace(PATIENT, watch_s=0.5), calls)
        await client.watch(lists.append)
    assert len(lists) == 1
    assert calls.skipped() == frozenset()


async def test_a_watch_that_the_router_ends_is_over(channels: Channels):
    router = FakeRouter(A)
    router.watch_lists_max = 1
    async with serving(router) as address:
        await router_client(channels, address).watch(lambda _: None)


async def test_a_watch_without_a_first_list_is_late(channels: Channels):
    router = FakeRouter(A)
    router.troubles["WatchNodes"] = Stall()
    async with serving(router) as address:
        with pytest.raises(PeerTimeoutError):
            await router_client(channels, address, IMPATIENT).watch(lambda _: None)


async def test_a_watch_of_a_router_that_is_gone_fails(channels: Channels):
    with dead_address() as address, pytest.raises(PeerUnreachableError):
        await router_client(channels, address).watch(lambda _: None)
