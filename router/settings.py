"""What the router needs to know before it opens a socket: the `[router]` section. Pure."""

import math
from dataclasses import dataclass

from hearthkv.core.errors import SettingsError
from hearthkv.core.log_level import check_log_level


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings:
    """
    Everything that an operator may decide about a router.

    Raises:
        SettingsError: If a value is impossible; the text names field, value and what is allowed.
    """

    listen: str = "127.0.0.1:7400"
    """Address of the gRPC server, host:port; port 0 takes any free one."""

    metrics_host: str = "127.0.0.1"
    """Address of the metrics port."""

    metrics_port: int = 9400
    """Port of /metrics; 0 takes any free one, -1 switches it off."""

    log_level: str = "info"
    """debug, info, warning or error. At info every placement is a line; a router that places
    thousands a second is better off with warning."""

    suspect_s: float = 2.5
    """Silence after which a node gets no turns until it is heard again. Nodes speak every second:
    a short time suspects nodes that are merely slow, a long one sends turns to a node that is cut
    off or stopped."""

    lease_s: float = 10.0
    """Silence after which a node and its blocks are forgotten. A short lease forgets what a node
    that restarts quickly has to tell again, a long one keeps the memory of nodes that are gone."""

    reuse_min_fraction: float = 0.5
    """With the hint `reuse`, a match of at least this share of the prompt's blocks moves the
    session to the node that holds it. Lower spreads less: all prompts share their first blocks."""

    reuse_min_gain_blocks: int = 32
    """With the hint `reuse`, a match that is longer than the session's own by at least so many
    blocks moves it as well."""

    settled_fraction: float = 0.6
    """With the hint `reuse`, a turn of whose prompt no node holds this share has much to compute
    anyway, and goes where that pushes out what is wanted least. Higher moves sessions more often,
    which costs copies; lower leaves sessions on nodes that are too small for them."""

    room_min_tokens: int = 2048
    """Prompt tokens that nobody holds below which such a turn stays after all."""

    prefill_tokens_per_s: float = 10_000.0
    """What an engine computes of prompts, at its best; the engine's own log tells. Too high, and
    nodes look idle that are not; too low, and turns leave nodes that would be ready."""

    spill_wait_s: float = 2.0
    """With the hint `reuse`, a turn leaves its node when that has so many seconds of prefill more
    to do than another, and as many more as the copy of the prefix costs. It is how much later the
    first token may come for the sake of a session that stays; about the TTFT that is allowed."""

    copy_cost: float = 4.0
    """What the copy of a token to another node costs, in tokens prefilled: one for the way, at
    1.3 GB/s and for a model of 32B, and the rest for what it pushes out there. Lower evens out
    short peaks at the price of hits."""

    sessions_max: int = 100_000
    """Sessions remembered; beyond it the one that was idle longest is forgotten, and its next
    turn goes to its home. A session costs about 0.5 kB."""

    index_keys_max: int = 4_000_000
    """Blocks remembered, summed over the nodes; a block costs about 40 bytes. Beyond it matches get
    shorter, never wrong."""

    hot_sessions_min: int = 4
    """New sessions of the last minutes that share a prefix, from which on nodes that serve such
    sessions are told to fetch it. Lower copies more for less."""

    hot_replicas_max: int = 4
    """Nodes that such a prefix is copied to, those that hold it anyway included."""

    hot_blocks_per_s: float = 32.0
    """Blocks of such prefixes that may be copied each second, over all nodes; 0: none. A block of
    a 32B model is 4 MB."""

    nodes_max: int = 256
    """Nodes that may join; one more is refused."""

    settle_s: float = 0.0
    """Seconds after its start in which a router places no turn, because its nodes are coming back
    one by one. Its clients ask the next router meanwhile, or hash by their last list of nodes.
    3 where there are several routers; 0 where there is one."""

    drain_s: float = 5.0
    """Seconds that running calls get to finish after SIGTERM."""

    def __post_init__(self) -> None:
        check_log_level(self.log_level)
        if not -1 <= self.metrics_port <= 65_535:
            raise SettingsError(f"metrics_port is {self.metrics_port}, must be in -1..65535")
        for name in ("suspect_s", "lease_s", "prefill_tokens_per_s", "spill_wait_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise SettingsError(f"{name} is {getattr(self, name)}, must be > 0")
        for name in ("reuse_min_fraction", "settled_fraction"):
            if not 0 < getattr(self, name) <= 1:
                raise SettingsError(f"{name} is {getattr(self, name)}, must be in (0, 1]")
        for name in ("drain_s", "settle_s", "hot_blocks_per_s", "copy_cost"):
            if not 0 <= getattr(self, name) < math.inf:
                raise SettingsError(f"{name} is {getattr(self, name)}, must be >= 0")
        for name in (
            *("reuse_min_gain_blocks", "sessions_max", "index_keys_max", "nodes_max"),
            *("hot_sessions_min", "hot_replicas_max", "room_min_tokens"),
        ):
            value = getattr(self, name)
            if value < 1:
                raise SettingsError(f"{name} is {value}, must be >= 1")
