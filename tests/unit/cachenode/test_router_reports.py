"""Tests of `cachenode.router_reports`: whom a node speaks to follows the names it was given."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from cachenode.events import METRICS
from cachenode.node import CacheNode
from cachenode.reporter import Reporter
from cachenode.router_reports import RouterReports
from hearthkv.client.router_names import RouterNames
from hearthkv.core.clock import ManualClock
from hearthkv.core.routing import NodeEndpoint
from hearthkv.core.session_id import NodeId
from hearthkv.metrics import PrometheusMeters
from hearthkv.telemetry import Telemetry
from tests.node_rig import open_node

ENDPOINT = NodeEndpoint(NodeId("node-a"), "127.0.0.1:1")


def reports_of(node: CacheNode, names: RouterNames) -> RouterReports:
    telemetry = Telemetry(logging.getLogger("test"), PrometheusMeters(METRICS))

    def new(address: str) -> Reporter:
        return Reporter(
            node, ENDPOINT, address, clock=ManualClock(), jitter=lambda: 0.0, telemetry=telemetry
        )

    return RouterReports(names, new)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0)


async def addresses_are(reports: RouterReports, expected: list[str]) -> None:
    await until(lambda: reports.addresses == expected)


async def test_addresses_are_spoken_to_as_they_are():
    async with open_node({}) as rig, asyncio.TaskGroup() as tasks:
        reports = reports_of(rig.node, RouterNames(["127.0.0.1:1", "127.0.0.1:2"]))
        running = tasks.create_task(reports.run())
        await addresses_are(reports, ["127.0.0.1:1", "127.0.0.1:2"])
        running.cancel()


async def test_all_routers_behind_a_name_are_spoken_to_and_one_that_loses_it_no_more(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("cachenode.router_reports.RESOLVE_EVERY_S", 0.01)
    hosts = ["127.0.0.1", "127.0.0.2"]

    async def resolve(host: str, port: int) -> list[str]:
        assert (host, port) == ("routers", 1)
        return hosts

    async with open_node({}) as rig, asyncio.TaskGroup() as tasks:
        reports = reports_of(rig.node, RouterNames(["routers:1"], resolve))
        running = tasks.create_task(reports.run())
        await addresses_are(reports, ["127.0.0.1:1", "127.0.0.2:1"])
        hosts[:] = ["127.0.0.2", "127.0.0.3"]
        await addresses_are(reports, ["127.0.0.2:1", "127.0.0.3:1"])
        await until(lambda: len(rig.node.drain.moved._listeners) == 2)
        running.cancel()
    assert rig.node.drain.moved._listeners == []
