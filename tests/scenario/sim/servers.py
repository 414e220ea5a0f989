"""
The real router and the real node, put together as their own `server` modules do it.

What differs from life is what is underneath: the stores, the network and the clock. When the
contract or the making of a server changes, this is the module that follows.
"""

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass

from cachenode.catalog import Catalog
from cachenode.eviction import policy_named
from cachenode.node import CacheNode, NodeIdentity
from cachenode.peer_list import PeerList
from cachenode.plans import TierLimits
from cachenode.puller import PullLimits
from cachenode.reporter import Reporter
from cachenode.service import CacheNodeService
from cachenode.service import add_to_server as add_cache_node
from hearthkv.core.block_frame import FRAME_BYTES
from hearthkv.core.routing import NodeEndpoint
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from hearthkv.telemetry import NoMeters, Telemetry
from hearthkv.v1 import membership_pb2_grpc, router_pb2_grpc
from router.cluster import Cluster
from router.node_watch import NodeWatch
from router.service import MembershipService, RouterService
from router.settings import RouterSettings
from tests.scenario.sim.disk import Disk, SimStore
from tests.scenario.sim.grpc_server import SimServer
from tests.scenario.sim.machines import Machine, Process
from tests.scenario.sim.oracle import WatchedLog
from tests.scenario.sim.rpc import Fabric

NODE_PORT = 7500
ROUTER_PORT = 7400
POLICIES = ("lru_with_media_priority", "lru", "s3fifo")


def telemetry() -> Telemetry:
    """One that tells nobody."""
    logger = logging.getLogger("simulation")
    logger.setLevel(logging.CRITICAL + 1)
    return Telemetry(logger, NoMeters())


def router_address(machine: Machine) -> str:
    return f"{machine.host}:{ROUTER_PORT}"


@dataclass(frozen=True)
class RouterProcess:
    """A router that runs."""

    process: Process
    cluster: Cluster
    watch: NodeWatch
    joined: "JoinTimes"


class JoinTimes:
    """Since when a router has had the stream of each node that it has now."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._since: dict[NodeId, tuple[int, float]] = {}

    def since(self, node_id: NodeId, now: float) -> float | None:
        """When it was seen first; None without a stream. Has to be asked often."""
        stream = self._cluster.membership.stream(node_id)
        if stream is None:
            self._since.pop(node_id, None)
            return None
        seen = self._since.get(node_id)
        if seen is None or seen[0] != stream:
            seen = self._since[node_id] = (stream, now)
        return seen[1]


def start_router(machine: Machine, process: Process, fabric: Fabric) -> RouterProcess:
    """Start a router, which knows nothing yet."""
    settings = RouterSettings(lease_s=4, hot_sessions_min=2)
    cluster = Cluster(settings)
    watch = NodeWatch(cluster, machine.clock, telemetry(), stream_silence_s=settings.lease_s)
    server = SimServer()
    router_pb2_grpc.add_RouterServicer_to_server(
        RouterService(cluster, watch, machine.clock, telemetry()), server
    )
    membership_pb2_grpc.add_MembershipServicer_to_server(
        MembershipService(watch, telemetry()), server
    )
    server.start(fabric, router_address(machine), process)
    process.spawn(watch.sweep_forever())
    return RouterProcess(process, cluster, watch, JoinTimes(cluster))


@dataclass(frozen=True)
class NodeProcess:
    """A node that runs."""

    process: Process
    node: CacheNode
    log: WatchedLog


@dataclass(frozen=True)
class NodePlan:
    """What every start of one node has in common."""

    machine: Machine
    disks: Mapping[Tier, Disk]
    policy: str
    routers: tuple[str, ...]

    @property
    def node_id(self) -> NodeId:
        return NodeId(self.machine.name)

    @property
    def address(self) -> str:
        return f"{self.machine.host}:{NODE_PORT}"


def start_node(
    plan: NodePlan, process: Process, log: WatchedLog, fabric: Fabric, chance: random.Random
) -> NodeProcess:
    """Start a node over what its disks hold."""
    catalog = Catalog(
        dram=TierLimits(plan.disks[Tier.DRAM].limit_bytes, FRAME_BYTES),
        ssd=TierLimits(plan.disks[Tier.SSD].limit_bytes, FRAME_BYTES),
        offload_threshold=0.85,
        policy=policy_named(plan.policy),
        events=log,
    )
    peers = PeerList(plan.routers, plan.node_id, clock=plan.machine.clock, telemetry=telemetry())
    # Its tasks are those of the process, and end with it.
    tasks = asyncio.TaskGroup()
    node = CacheNode(
        identity=NodeIdentity(
            node_id=plan.node_id, epoch=process.number, version="0", address=plan.address
        ),
        catalog=catalog,
        stores={
            tier: SimStore(disk, process, random.Random(chance.random()))
            for tier, disk in plan.disks.items()
        },
        clock=plan.machine.clock,
        telemetry=telemetry(),
        tasks=tasks,
        pull_limits=PullLimits(stall_s=0.5, pull_s=4),
        find_peers=peers.find,
    )
    server = SimServer()
    add_cache_node(CacheNodeService(node), server)  # type: ignore[arg-type]
    endpoint = NodeEndpoint(plan.node_id, plan.address, epoch=process.number)
    reporters = [
        Reporter(
            node,
            endpoint,
            router,
            clock=plan.machine.clock,
            jitter=random.Random(chance.random()).random,
            telemetry=telemetry(),
        )
        for router in plan.routers
    ]

    async def run() -> None:
        async with tasks:
            await node.start()
            node.work_in_background()
            server.start(fabric, plan.address, process)
            for reporter in reporters:
                tasks.create_task(reporter.run())

    process.spawn(run())
    return NodeProcess(process, node, log)
