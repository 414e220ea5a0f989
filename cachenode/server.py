"""The cache node as a running server: opens its stores, ports and tasks; closes them in order."""

import asyncio
import logging
import random
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cachenode import events
from cachenode.catalog import Catalog
from cachenode.direct_access import DirectAccess
from cachenode.direct_service import SERVICE_NAME as DIRECT_SERVICE_NAME
from cachenode.direct_service import DirectPathService
from cachenode.disk import Disk
from cachenode.dram_store import DramStore
from cachenode.eviction import policy_named
from cachenode.node import CacheNode, NodeIdentity
from cachenode.peer_list import PeerList
from cachenode.plans import TierLimits
from cachenode.puller import PullLimits
from cachenode.reporter import Reporter
from cachenode.router_reports import RouterReports
from cachenode.service import SERVICE_NAMES, CacheNodeService, add_to_server
from cachenode.settings import CacheNodeSettings
from cachenode.slab_allocator import slab_limits
from cachenode.slab_files import SlabFiles
from cachenode.ssd_store import SsdStore
from cachenode.store import BlockStore
from hearthkv import __version__
from hearthkv.client.router_names import RouterNames
from hearthkv.core.block_frame import FRAME_BYTES
from hearthkv.core.clock import Clock, SystemClock
from hearthkv.core.direct_path import Attachment
from hearthkv.core.errors import StartupError
from hearthkv.core.kv_cache_settings import KvCacheSettings
from hearthkv.core.routing import NodeEndpoint
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from hearthkv.datapath.file_reader import FileReader
from hearthkv.grpc_server import add_standard_services, bind, new_server
from hearthkv.metrics import MetricsPort, PrometheusMeters
from hearthkv.process import announce_ready
from hearthkv.telemetry import Telemetry
from hearthkv.v1 import direct_path_pb2_grpc


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node that serves."""

    address: str
    """Where it listens, with the port that was really taken."""

    metrics_address: str | None
    """None where the metrics port is off."""

    node: CacheNode
    meters: PrometheusMeters


async def serve(
    settings: CacheNodeSettings, kv_cache: KvCacheSettings, stop: asyncio.Event
) -> None:
    """
    Serve until `stop` is set; the READY line says from when on.

    Raises:
        SettingsError: If a URL of a store can't be understood.
        StartupError: If a port or the SSD folder can't be opened.
    """
    async with running(settings, kv_cache, SystemClock()) as running_node:
        announce_ready(running_node.address, running_node.metrics_address)
        await stop.wait()
        if settings.drain_grace_s:
            await running_node.node.drain.leave(settings.drain_grace_s)


@asynccontextmanager
async def running(
    settings: CacheNodeSettings, kv_cache: KvCacheSettings, clock: Clock
) -> AsyncIterator[RunningNode]:
    """
    Run a node in this process, for as long as the body runs.

    Raises:
        SettingsError: If a URL of a store can't be understood.
        StartupError: If a port or the SSD folder can't be opened.
    """
    meters = PrometheusMeters(events.METRICS)
    telemetry = Telemetry(logging.getLogger("cachenode"), meters)
    server = new_server(settings.calls_max)
    async with AsyncExitStack() as closing:
        address = bind(server, settings.listen)
        identity = _new_identity(settings, settings.advertise or address)
        metrics_address = _open_metrics(settings, meters, closing)
        stores = await _open_stores(settings, kv_cache, identity, closing)
        peers = PeerList(settings.routers, identity.node_id, clock=clock, telemetry=telemetry)
        closing.push_async_callback(peers.close)
        tasks = await closing.enter_async_context(asyncio.TaskGroup())
        node = CacheNode(
            identity=identity,
            catalog=_new_catalog(kv_cache),
            stores=stores,
            clock=clock,
            telemetry=telemetry,
            tasks=tasks,
            is_parallel_read=kv_cache.parallel_read,
            read_bytes_max=settings.read_memory_mb * 1024 * 1024,
            write_bytes_max=settings.write_memory_mb * 1024 * 1024,
            is_prefetch_on=kv_cache.prefetch_enabled,
            pull_limits=_pull_limits(settings),
            find_peers=peers.find,
        )
        add_to_server(CacheNodeService(node), server)
        names = list(SERVICE_NAMES)
        if settings.direct_path:
            access = closing.enter_context(_direct_access(settings, identity, stores))
            service = DirectPathService(node, access)
            direct_path_pb2_grpc.add_DirectPathServicer_to_server(service, server)
            names.append(DIRECT_SERVICE_NAME)
        health = add_standard_services(server, names)
        await node.start()
        node.work_in_background()
        closing.callback(node.stop)
        await server.start()
        closing.push_async_callback(server.stop, settings.drain_s)
        await health.serving()
        telemetry.emit(
            events.NodeStarted(
                identity.node_id, f"{identity.epoch:016x}", address, identity.version
            )
        )
        reporting = tasks.create_task(_reports(settings, node, clock, telemetry).run())
        try:
            yield RunningNode(address, metrics_address, node, meters)
        finally:
            telemetry.emit(events.NodeStopping(node.calls_in_flight))
            node.pulls.stop()  # those who wait for them are told, and their calls end
            reporting.cancel()
            await health.stopping()


def _new_identity(settings: CacheNodeSettings, address: str) -> NodeIdentity:
    return NodeIdentity(
        node_id=NodeId(settings.node_id),
        epoch=secrets.randbits(64),
        version=__version__,
        address=address,
    )


def _pull_limits(settings: CacheNodeSettings) -> PullLimits:
    return PullLimits(
        runs_max=settings.pulls_max,
        memory_bytes=settings.pull_memory_mb * 1024 * 1024,
        stall_s=settings.pull_stall_s,
        pull_s=settings.pull_s,
    )


def _direct_access(
    settings: CacheNodeSettings, identity: NodeIdentity, stores: Mapping[Tier, BlockStore]
) -> DirectAccess:
    """Let clients on this host into the stores that are there."""
    attachment = Attachment(
        node_id=identity.node_id,
        epoch=identity.epoch,
        redis_urls=tuple(settings.redis_urls) if Tier.DRAM in stores else (),
        ssd_dir=settings.ssd_dir if Tier.SSD in stores else "",
        is_direct_io=settings.ssd_direct_io,
    )
    return DirectAccess(attachment)


def _new_catalog(kv_cache: KvCacheSettings) -> Catalog:
    return Catalog(
        dram=TierLimits(kv_cache.limit_bytes(Tier.DRAM), FRAME_BYTES),
        ssd=slab_limits(kv_cache.limit_bytes(Tier.SSD)),
        offload_threshold=kv_cache.offload_threshold,
        policy=policy_named(kv_cache.eviction_policy),
    )


async def _open_stores(
    settings: CacheNodeSettings,
    kv_cache: KvCacheSettings,
    identity: NodeIdentity,
    closing: AsyncExitStack,
) -> Mapping[Tier, BlockStore]:
    """Open the stores of the tiers that have any room."""
    stores: dict[Tier, BlockStore] = {}
    if kv_cache.limit_bytes(Tier.DRAM):
        stores[Tier.DRAM] = DramStore(
            settings.redis_urls,
            node_id=identity.node_id,
            epoch=identity.epoch,
            deadline_s=settings.store_timeout_s,
        )
    if kv_cache.limit_bytes(Tier.SSD):
        stores[Tier.SSD] = _ssd_store(settings, kv_cache)
    for store in stores.values():
        closing.push_async_callback(store.close)
    return stores


def _ssd_store(settings: CacheNodeSettings, kv_cache: KvCacheSettings) -> SsdStore:
    folder = Path(settings.ssd_dir)
    disk = _claimed(folder)
    reader = FileReader(folder, is_direct=settings.ssd_direct_io)
    files = SlabFiles(disk, reader, limit_bytes=kv_cache.limit_bytes(Tier.SSD))
    return SsdStore(files, deadline_s=settings.store_timeout_s, is_parallel=kv_cache.parallel_read)


def _claimed(folder: Path) -> Disk:
    disk = Disk(folder)
    try:
        disk.claim()
    except BlockingIOError as error:
        raise StartupError(
            f"ssd_dir {folder} is in use by another cache node: give each node its own --ssd-dir"
        ) from error
    except OSError as error:
        raise StartupError(
            f"ssd_dir {folder} can't be written ({error.strerror}): make it writable, "
            f"or choose another folder with --ssd-dir"
        ) from error
    return disk


def _open_metrics(
    settings: CacheNodeSettings, meters: PrometheusMeters, closing: AsyncExitStack
) -> str | None:
    if settings.metrics_port < 0:
        return None
    port = MetricsPort(meters, settings.metrics_host, settings.metrics_port)
    closing.callback(port.close)
    return f"{settings.metrics_host}:{port.port}"


def _reports(
    settings: CacheNodeSettings,
    node: CacheNode,
    clock: Clock,
    telemetry: Telemetry,
) -> RouterReports:
    endpoint = NodeEndpoint(
        node_id=node.identity.node_id,
        address=node.identity.address,
        engine_url=settings.engine_url,
        epoch=node.identity.epoch,
        weight=settings.weight,
    )
    jitter = random.Random(node.identity.epoch).random  # noqa: S311  # spreads load, hides nothing

    def new_reporter(router: str) -> Reporter:
        return Reporter(node, endpoint, router, clock=clock, jitter=jitter, telemetry=telemetry)

    return RouterReports(RouterNames(settings.routers), new_reporter)
