"""router/server.py: ports, the standard services, and a clean end."""

import asyncio
import socket

import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from hearthkv.core.errors import StartupError
from hearthkv.v1 import router_pb2
from router.server import serve
from router.settings import RouterSettings
from tests.unit.router.served import serving


async def test_reflection_lists_the_services():
    async with serving() as served:
        stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
        call = stub.ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        response = await call.read()
        call.cancel()
        names = {service.name for service in response.list_services_response.service}
        assert names >= {"hearthkv.v1.Router", "hearthkv.v1.Membership", "grpc.health.v1.Health"}


@pytest.mark.parametrize("name", ["", "hearthkv.v1.Router", "hearthkv.v1.Membership"])
async def test_health_says_that_the_services_serve(name: str):
    async with serving() as served:
        stub = health_pb2_grpc.HealthStub(served.channel)
        response = await stub.Check(health_pb2.HealthCheckRequest(service=name))
        assert response.status == health_pb2.HealthCheckResponse.SERVING


async def test_metrics_are_served_on_a_port_of_their_own():
    async with serving(metrics_port=0) as served:
        metrics = await served.metrics()
        assert metrics['router_nodes{state="live"}'] == 0
        assert metrics["router_sessions"] == 0


async def test_a_metrics_port_that_is_off_has_no_address():
    async with serving(metrics_port=-1) as served:
        assert served.router.metrics_address is None


async def test_a_router_ends_while_nodes_and_watchers_are_connected():
    async with serving(drain_s=60.0) as served:
        node = served.node()
        await node.join()
        watching = served.stub.WatchNodes(router_pb2.WatchNodesRequest())
        await watching.read()
    # Reached without waiting for the drain time, or the test would time out.


async def test_a_port_in_use_is_named_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartupError, match=f"can't listen on {address}: Address already in"):
            async with serving(listen=address):
                pass


async def test_a_second_router_on_the_same_port_does_not_start():
    async with serving() as served:
        with pytest.raises(StartupError, match="--listen"):
            async with serving(listen=served.router.address):
                pass


async def test_a_metrics_port_in_use_is_named():
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(StartupError, match="--metrics-port"),
    ):
        async with serving(metrics_port=taken.getsockname()[1]):
            pass


async def test_serving_announces_itself_and_ends_when_told_to(capsys):
    stop = asyncio.Event()
    stop.set()
    await serve(RouterSettings(listen="127.0.0.1:0", metrics_port=0), stop)
    ready, address, metrics = capsys.readouterr().out.split()
    assert ready == "READY"
    assert address.startswith("address=127.0.0.1:")
    assert metrics.startswith("metrics=127.0.0.1:")


async def test_calls_after_the_end_find_nobody():
    async with serving() as served:
        address = served.router.address
    async with aio.insecure_channel(address) as channel:
        with pytest.raises(aio.AioRpcError):
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
