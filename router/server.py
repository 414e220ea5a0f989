"""The router as a running server: opens its ports and tasks, and closes them in order."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hearthkv.core.clock import Clock, SystemClock
from hearthkv.grpc_server import add_standard_services, bind, new_server
from hearthkv.metrics import MetricsPort, PrometheusMeters
from hearthkv.process import announce_ready
from hearthkv.telemetry import Telemetry
from hearthkv.v1 import membership_pb2_grpc, router_pb2_grpc
from router import events
from router.cluster import Cluster
from router.node_watch import NodeWatch
from router.service import SERVICE_NAMES, MembershipService, RouterService
from router.settings import RouterSettings


@dataclass(frozen=True, slots=True)
class RunningRouter:
    """A router that serves."""

    address: str
    """Where it listens, with the port that was really taken."""

    metrics_address: str | None
    """None where the metrics port is off."""

    cluster: Cluster
    watch: NodeWatch
    meters: PrometheusMeters


async def serve(settings: RouterSettings, stop: asyncio.Event) -> None:
    """
    Serve until `stop` is set; the READY line says from when on.

    Raises:
        StartupError: If a port can't be opened.
    """
    async with running(settings, SystemClock()) as router:
        announce_ready(router.address, router.metrics_address)
        await stop.wait()


@asynccontextmanager
async def running(settings: RouterSettings, clock: Clock) -> AsyncIterator[RunningRouter]:
    """
    Run a router in this process, for as long as the body runs.

    Raises:
        StartupError: If a port can't be opened.
    """
    meters = PrometheusMeters(events.METRICS)
    telemetry = Telemetry(logging.getLogger("router"), meters)
    cluster = Cluster(settings)
    watch = NodeWatch(cluster, clock, telemetry, stream_silence_s=settings.lease_s)
    server = new_server()
    router_pb2_grpc.add_RouterServicer_to_server(
        RouterService(cluster, watch, clock, telemetry, settle_s=settings.settle_s), server
    )
    membership_pb2_grpc.add_MembershipServicer_to_server(
        MembershipService(watch, telemetry), server
    )
    health = add_standard_services(server, SERVICE_NAMES)
    address = bind(server, settings.listen)
    metrics_port = _open_metrics(settings, meters)
    metrics_address = f"{settings.metrics_host}:{metrics_port.port}" if metrics_port else None
    try:
        await server.start()
        await health.serving()
        telemetry.emit(events.RouterStarted(address, metrics_address or "-"))
        async with asyncio.TaskGroup() as tasks:
            sweeping = tasks.create_task(watch.sweep_forever())
            try:
                yield RunningRouter(address, metrics_address, cluster, watch, meters)
            finally:
                sweeping.cancel()
                await health.stopping()
                watch.close()
                await server.stop(settings.drain_s)
    finally:
        if metrics_port is not None:
            metrics_port.close()
    telemetry.emit(events.RouterStopped(address))


def _open_metrics(settings: RouterSettings, meters: PrometheusMeters) -> MetricsPort | None:
    if settings.metrics_port < 0:
        return None
    return MetricsPort(meters, settings.metrics_host, settings.metrics_port)
