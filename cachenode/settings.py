"""What a cache node is told before it opens a socket: the `[cachenode]` section. Pure."""

import math
from dataclasses import dataclass, field

from hearthkv.core.address import check_host_port
from hearthkv.core.errors import BadInputError, SettingsError
from hearthkv.core.log_level import check_log_level
from hearthkv.core.session_id import check_node_id


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheNodeSettings:
    """
    Where a node listens, what it stores blocks in, and whom it reports to.

    Raises:
        SettingsError: If a value is impossible; the text names field, value and what is allowed.
    """

    node_id: str = "node"
    """The node's name, stable over restarts: blocks in Redis are kept under it."""

    listen: str = "127.0.0.1:7500"
    """Address of the gRPC server, host:port; port 0 takes any free one."""

    advertise: str = ""
    """Address that clients are told, host:port; the listen address where it is empty."""

    engine_url: str = ""
    """Base URL of the engine beside the node; empty where there is none."""

    routers: list[str] = field(default_factory=list)
    """Routers to report to, host:port; a DNS name stands for all its addresses, those of IPv4
    where it has any. A node without a router serves all the same."""

    redis_urls: list[str] = field(default_factory=lambda: ["redis://127.0.0.1:6379/0"])
    """Servers of the DRAM tier: unix:///path.sock or redis://[:password@]host:port[/db]. Not
    looked at where dram_ratio is 0."""

    ssd_dir: str = "hearthkv-ssd"
    """Folder of the SSD tier, for this node alone. Not looked at where ssd_ratio is 0."""

    ssd_direct_io: bool = False
    """Read the SSD past the page cache (O_DIRECT), which leaves that to others. Blocks that were
    read a moment ago then cost a read of the disk again."""

    direct_path: bool = True
    """Let clients on this host read and write the stores themselves, which costs a fraction of
    the streams through the node. Who can read the node's files is told how to get into Redis."""

    metrics_port: int = 9500
    """Port of /metrics; 0 takes any free one, -1 opens none."""

    metrics_host: str = "127.0.0.1"
    """Address that the metrics port is opened on."""

    weight: float = 1.0
    """Share of the sessions that the node wants, relative to others."""

    store_timeout_s: float = 5.0
    """Seconds that one call to Redis or the disk may take. Too short, and a busy store counts as
    one that is away; too long, and a read waits for a store that is."""

    read_memory_mb: int = 256
    """MiB of blocks that all reads together have in memory, up to 12 for each. Further reads wait
    for it within their deadlines. A block that is larger than that is read all the same, alone."""

    write_memory_mb: int = 256
    """MiB of blocks above 1 MiB that all writes together have in memory, up to four blocks for
    each. Further writes wait for it within their deadlines."""

    calls_max: int = 256
    """Calls that run at once; one more is refused, which is a miss. A write of small blocks holds
    up to 12 MiB of them in memory, so this bounds what the process may need."""

    pulls_max: int = 8
    """Prefixes that the node fetches from other nodes at once; one more is not fetched, and costs
    a prefill."""

    pull_memory_mb: int = 128
    """MiB of blocks that those have in memory, up to 16 for each."""

    pull_stall_s: float = 2.0
    """Seconds without a byte after which a node that is fetched from is given up."""

    pull_s: float = 60.0
    """Seconds after which a fetch ends, however far it has come."""

    drain_grace_s: float = 0.0
    """Seconds that the node has to hand its sessions to other nodes after SIGTERM. 0 hands nothing
    over: a node that comes back finds its blocks in Redis and on the SSD. Give it to a node that
    does not come back, and give the process that much more time before it is killed."""

    drain_s: float = 5.0
    """Seconds that running calls get to finish after SIGTERM, and after the hand-over."""

    log_level: str = "info"
    """Least level that is logged: debug, info, warning or error."""

    def __post_init__(self) -> None:
        try:
            check_node_id(self.node_id)
        except BadInputError as error:
            raise SettingsError(str(error)) from error
        for router in self.routers:
            try:
                check_host_port(router)
            except BadInputError as error:
                raise SettingsError(f"one of routers: {error}") from error
        for name in ("weight", "store_timeout_s", "pull_stall_s", "pull_s"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise SettingsError(f"{name} is {value}, must be > 0")
        for name in (
            "calls_max",
            "read_memory_mb",
            "write_memory_mb",
            "pulls_max",
            "pull_memory_mb",
        ):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}, must be >= 1")
        for name in ("drain_s", "drain_grace_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise SettingsError(f"{name} is {getattr(self, name)}, must be >= 0")
        if not -1 <= self.metrics_port <= 65535:
            raise SettingsError(f"metrics_port is {self.metrics_port}, must be in -1..65535")
        check_log_level(self.log_level)
