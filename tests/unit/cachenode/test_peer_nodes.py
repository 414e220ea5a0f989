"""Tests of `cachenode.peer_nodes`."""

import logging

import pytest

from cachenode.events import METRICS
from cachenode.peer_nodes import PeerNodes
from hearthkv.core.clock import ManualClock
from hearthkv.core.errors import PeerUnreachableError
from hearthkv.core.pulls import LineageQuery
from hearthkv.metrics import PrometheusMeters
from hearthkv.telemetry import Telemetry
from tests.fakes.node import FakeNode
from tests.fakes.servers import dead_address, serving

QUERY = LineageQuery(b"n" * 16, b"t")


def peer_nodes() -> PeerNodes:
    telemetry = Telemetry(logging.getLogger("test"), PrometheusMeters(METRICS))
    return PeerNodes(ManualClock(), 20.0, telemetry)


async def test_a_node_is_reached_and_left_again():
    peers = peer_nodes()
    async with serving(FakeNode()) as address:
        for _ in range(2):
            async with peers.open(address) as peer:
                assert not (await peer.lineage(QUERY)).keys


async def test_a_node_that_failed_is_left_alone_and_the_log_alone_is_told(caplog):
    peers = peer_nodes()
    with dead_address() as nowhere:
        for text in ("can't be reached", "left alone for now"):
            async with peers.open(nowhere) as peer:
                with pytest.raises(PeerUnreachableError, match=text):
                    await peer.lineage(QUERY)
    assert "PeerFailed" in caplog.text
