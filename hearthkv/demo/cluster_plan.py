"""What a local cluster is made of, and the command line of each server. Pure."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hearthkv.core.kv_cache_settings import KvCacheSettings

HOST = "127.0.0.1"

ROUTER = "router"

READY_MARK = "READY "
"""What our servers write when they serve."""

REDIS_READY_MARK = "eady to accept connections"
"""What a Redis writes when it serves. The first letter is left out on purpose: on a unix socket
Redis 7 writes "The server is now ready ...", later ones and Valkey write "Ready ..."."""

PORTS_OF_ROUTER = 2
PORTS_OF_NODE = 3


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """How to start a server, and how to see that it serves."""

    name: str
    command: tuple[str, ...]
    ready_mark: str = READY_MARK
    """Text in the line on standard output that says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCommands:
    """The programs that a cluster is made of."""

    router: tuple[str, ...] = (sys.executable, "-m", "router")
    cachenode: tuple[str, ...] = (sys.executable, "-m", "cachenode")
    engine: tuple[str, ...] = (sys.executable, "-m", "hearthkv.demo")
    redis: tuple[str, ...] = ()
    """Empty: the one that is found on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """What to start."""

    nodes: int = 3
    kv_cache: KvCacheSettings = field(default_factory=KvCacheSettings)
    """Size and split of every node's cache."""

    router_port: int = 0
    """Port of the router; 0: any that is free."""

    start_timeout_s: float = 60.0
    """Seconds that a server gets until it serves. The engines load a model meanwhile."""

    grace_s: float = 5.0
    """Seconds between SIGTERM and SIGKILL."""

    commands: ServerCommands = field(default_factory=ServerCommands)


@dataclass(frozen=True, slots=True)
class LocalNode:
    """A cache node and what stands beside it."""

    name: str
    """Its node id, and its name as a process."""

    address: str
    metrics_url: str
    redis_name: str
    engine_name: str
    engine_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    """Where everything in one cluster is."""

    run_folder: Path
    router_address: str
    router_metrics_url: str
    nodes: tuple[LocalNode, ...]

    @property
    def settings_file(self) -> Path:
        """The file with the settings that nodes and engines share."""
        return self.run_folder / "kv_cache.toml"

    def ssd_folder(self, node: LocalNode) -> Path:
        """Where a node keeps its SSD blocks."""
        return self.run_folder / f"ssd-{node.name}"

    def log_path(self, server: str) -> Path:
        """Where a server's output goes."""
        return self.run_folder / f"{server}.log"


def port_count(plan: ClusterPlan) -> int:
    """Ports that a cluster needs."""
    return PORTS_OF_ROUTER + PORTS_OF_NODE * plan.nodes


def lay_out(plan: ClusterPlan, run_folder: Path, ports: Sequence[int]) -> ClusterLayout:
    """Give every server its address; `ports` are `port_count(plan)` free ones."""
    router_port, router_metrics_port, *of_nodes = ports
    return ClusterLayout(
        run_folder=run_folder,
        router_address=f"{HOST}:{plan.router_port or router_port}",
        router_metrics_url=f"http://{HOST}:{router_metrics_port}/metrics",
        nodes=tuple(
            _local_node(index + 1, *of_nodes[PORTS_OF_NODE * index :][:PORTS_OF_NODE])
            for index in range(plan.nodes)
        ),
    )


def server_specs(commands: ServerCommands, layout: ClusterLayout) -> dict[str, ProcessSpec]:
    """Return how to start every server, by name. `commands.redis` must be given."""
    specs = [_router_spec(commands, layout)]
    for node in layout.nodes:
        specs.append(_redis_spec(commands, layout, node))
        specs.append(_cachenode_spec(commands, layout, node))
        specs.append(_engine_spec(commands, layout, node))
    return {spec.name: spec for spec in specs}


def kv_cache_toml(settings: KvCacheSettings) -> str:
    """Return the settings file that nodes and engines share."""
    lines = ["[kv_cache]"]
    for name, value in asdict(settings).items():
        if isinstance(value, bool):
            lines.append(f"{name} = {str(value).lower()}")
        elif isinstance(value, str):
            lines.append(f'{name} = "{value}"')
        else:
            lines.append(f"{name} = {value!r}")
    return "\n".join(lines) + "\n"


def _router_spec(commands: ServerCommands, layout: ClusterLayout) -> ProcessSpec:
    arguments = ("--listen", layout.router_address)
    metrics = ("--metrics-port", _port(layout.router_metrics_url))
    return ProcessSpec(ROUTER, (*commands.router, *arguments, *metrics))


def _redis_spec(commands: ServerCommands, layout: ClusterLayout, node: LocalNode) -> ProcessSpec:
    # Nothing but the socket listens, nothing is written to disk, and Redis drops no block by
    # itself: which block leaves is the node's decision.
    arguments = (
        *("--port", "0", "--unixsocket", _redis_socket(layout, node), "--unixsocketperm", "700"),
        *("--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"),
        *("--dir", str(layout.run_folder)),
    )
    return ProcessSpec(node.redis_name, (*commands.redis, *arguments), REDIS_READY_MARK)


def _cachenode_spec(
    commands: ServerCommands, layout: ClusterLayout, node: LocalNode
) -> ProcessSpec:
    arguments = (
        *("--config", str(layout.settings_file), "--node-id", node.name),
        *("--listen", node.address, "--metrics-port", _port(node.metrics_url)),
        *("--engine-url", node.engine_url, "--routers", layout.router_address),
        *("--redis-urls", f"unix://{_redis_socket(layout, node)}"),
        *("--ssd-dir", str(layout.ssd_folder(node))),
    )
    return ProcessSpec(node.name, (*commands.cachenode, *arguments))


def _engine_spec(commands: ServerCommands, layout: ClusterLayout, node: LocalNode) -> ProcessSpec:
    arguments = (
        *("--config", str(layout.settings_file)),
        *("--listen", node.engine_url.removeprefix("http://"), "--node", node.address),
    )
    return ProcessSpec(node.engine_name, (*commands.engine, *arguments))


def _redis_socket(layout: ClusterLayout, node: LocalNode) -> str:
    return str(layout.run_folder / f"{node.redis_name}.sock")


def _port(url: str) -> str:
    return url.removesuffix("/metrics").rpartition(":")[2]


def _local_node(number: int, port: int, metrics_port: int, engine_port: int) -> LocalNode:
    return LocalNode(
        name=f"node-{number}",
        address=f"{HOST}:{port}",
        metrics_url=f"http://{HOST}:{metrics_port}/metrics",
        redis_name=f"redis-{number}",
        engine_name=f"engine-{number}",
        engine_url=f"http://{HOST}:{engine_port}",
    )
