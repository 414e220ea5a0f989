"""Tests of `cachenode.peer_list`."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import grpc
import pytest

from cachenode.peer_list import PeerList
from hearthkv.core.clock import ManualClock
from hearthkv.core.errors import PeerError
from hearthkv.core.session_id import NodeId
from hearthkv.telemetry import NoMeters, Telemetry
from hearthkv.v1 import router_pb2
from tests.fakes.misbehaviour import Fail
from tests.fakes.router import FakeRouter, endpoint
from tests.fakes.servers import dead_address, serving


@asynccontextmanager
async def peer_list(*routers: str) -> AsyncIterator[PeerList]:
    telemetry = Telemetry(logging.getLogger("test"), NoMeters())
    peers = PeerList(routers, NodeId("me"), clock=ManualClock(), telemetry=telemetry)
    try:
        yield peers
    finally:
        await peers.close()


async def names(peers: PeerList) -> Sequence[str]:
    return [peer.node_id for peer in await peers.find()]


async def test_the_live_nodes_but_oneself_take_sessions():
    router = FakeRouter(
        endpoint("me", "10.0.0.1:1"),
        endpoint("b", "10.0.0.2:1"),
        endpoint("leaving", "10.0.0.3:1", state=router_pb2.NODE_STATE_DRAINING),
        endpoint("gone", "10.0.0.4:1", state=router_pb2.NODE_STATE_SUSPECT),
        endpoint("odd", "unix:/run/odd"),
    )
    async with serving(router) as address, peer_list(address) as peers:
        assert await names(peers) == ["b"]


async def test_a_router_that_does_not_answer_is_passed_over():
    failing, honest = FakeRouter(), FakeRouter(endpoint("b", "10.0.0.2:1"))
    failing.troubles["ListNodes"] = Fail(grpc.StatusCode.INTERNAL)
    with dead_address() as dead:
        async with (
            serving(failing) as first,
            serving(honest) as second,
            peer_list(dead, first, second) as peers,
        ):
            assert await names(peers) == ["b"]


@pytest.mark.parametrize("is_named", [False, True])
async def test_without_a_router_there_is_no_list(is_named: bool):
    with dead_address() as dead:
        async with peer_list(*[dead] * is_named) as peers:
            with pytest.raises(PeerError):
                await peers.find()
