"""
Prefixes that many sessions share, and who is to fetch them. Pure: the hour is passed in.

All agents of one kind begin with the same instructions and tools. Such a prefix is to lie on
every node that serves them, or each new session there pays for it anew. A session counts once,
at its first turn, under its keys at the depths 4, 6, 8, 12, 16, 24, ...: what it shares with
others is found to within a third, at the price of two lookups for every doubling of the prompt.

The counts are those of Misra and Gries ("Finding repeated elements", 1982), in the batches of
Anderson et al. ("A high-performance algorithm for identifying frequent items in data streams",
2017): when the table is full, its median is taken off every count, and what is left with none is
dropped. So memory is bounded, and a count is never too high. All counts halve every
`HALF_LIFE_S`: a prefix that cools is forgotten, and eviction takes its copies; nothing is pinned.

An order is given where a prefix is hot, a node has served sessions of it and does not hold it,
fewer than `replicas_max` nodes do, and the budget allows it. Orders to one node for one prefix
are `ORDERS_MAX` at most, `REPEAT_S` apart, and count from the last pull that a turn brought it.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from hearthkv.core.block_key import SampledKeys
from hearthkv.core.routing import NodeEndpoint, PullOrder
from hearthkv.core.session_id import NodeId

HALF_LIFE_S: Final = 120.0
REPEAT_S: Final = 60.0
ORDERS_MAX: Final = 3
PREFIXES_MAX: Final = 2048
"""Prefixes that are counted: about 1 kB each."""

NODES_MAX: Final = 16
"""Nodes that are counted for one prefix: those that served it most."""

BLOCKS_MIN: Final = 4
"""Shorter prefixes are computed as fast as they are fetched."""

BURST_S: Final = 10.0
"""Seconds of an unused budget that may be spent at once."""

Holders = Callable[[bytes, bytes], Collection[NodeId]]
"""Who holds a block, by namespace and key."""


@dataclass(frozen=True, slots=True)
class HotPolicy:
    """When a prefix is worth a copy."""

    sessions_min: int = 4
    """New sessions of the last minutes that share it."""

    replicas_max: int = 4
    """Nodes that hold it, or were told to fetch it, at which no further one is told."""

    blocks_per_s: float = 32.0
    """Blocks that may be ordered, over all nodes; 0: none."""


@dataclass(slots=True)
class _Served:
    """What one node has to do with a prefix."""

    sessions: float = 0.0
    orders: int = 0
    ordered_s: float | None = None


@dataclass(slots=True)
class _Prefix:
    blocks: int
    parent_key: bytes
    """Key of the next shorter prefix that is counted; empty for the shortest."""

    sessions: float = 0.0
    nodes: dict[NodeId, _Served] = field(default_factory=dict)


class HotPrefixes:
    """The prefixes that many sessions share. See the module."""

    def __init__(self, policy: HotPolicy) -> None:
        self._policy = policy
        self._prefixes: dict[tuple[bytes, bytes], _Prefix] = {}
        self._halved_s: float | None = None
        self._spent_s = 0.0  # until when the budget is spent

    def __len__(self) -> int:
        """Prefixes that are counted, hot or not."""
        return len(self._prefixes)

    @property
    def hot_count(self) -> int:
        """Prefixes that are hot now, those within others included."""
        return sum(map(self._is_hot, self._prefixes.values()))

    def note_session(self, namespace_id: bytes, samples: SampledKeys, node_id: NodeId) -> None:
        """Count a session at its first turn, which went to `node_id`."""
        if self._policy.blocks_per_s <= 0:
            return
        parent_key = b""
        for blocks, key in _depths(samples):
            prefix = self._prefixes.get((namespace_id, key))
            if prefix is None:
                if len(self._prefixes) >= PREFIXES_MAX:
                    self._make_room()
                prefix = self._prefixes[namespace_id, key] = _Prefix(blocks, parent_key)
            prefix.sessions += 1
            _served_by(prefix, node_id).sessions += 1
            parent_key = key

    def note_pull(
        self, namespace_id: bytes, samples: SampledKeys, node_id: NodeId, now: float
    ) -> None:
        """Note that a turn has a node fetch the prefix that `samples` are of."""
        for _, key in _depths(samples):
            prefix = self._prefixes.get((namespace_id, key))
            if prefix is not None:
                _served_by(prefix, node_id).ordered_s = now

    def due(
        self,
        nodes: Sequence[NodeEndpoint],
        targets: Collection[NodeId],
        holders: Holders,
        now: float,
    ) -> list[tuple[NodeId, PullOrder]]:
        """
        Return which nodes are to fetch what now; the budget is charged with it.

        Args:
            nodes: All nodes that serve, by name: who may be fetched from.
            targets: Which of them may be told to fetch.
            holders: Who holds a block.
            now: The hour.
        """
        self._cool(now)
        hot = [item for item in self._prefixes.items() if self._is_hot(item[1])]
        # The deepest first: who fetches it has all that it contains.
        hot.sort(key=lambda item: (-item[1].blocks, item[0]))
        orders: list[tuple[NodeId, PullOrder]] = []
        for (namespace_id, key), prefix in hot:
            if now < self._spent_s:
                break
            holding = holders(namespace_id, key)
            wanting = self._wanting(prefix, holding, targets, now)
            # Most are where they are wanted, and then no walk over all nodes is needed.
            sources = [node for node in nodes if node.node_id in holding] if wanting else []
            for node_id in wanting if sources else ():
                address = sources[len(orders) % len(sources)].address
                orders.append((node_id, PullOrder(namespace_id, key, prefix.blocks, address)))
                self._charge(namespace_id, key, node_id, now)
        return orders

    def _is_hot(self, prefix: _Prefix) -> bool:
        return prefix.sessions >= self._policy.sessions_min

    def _wanting(
        self,
        prefix: _Prefix,
        holding: Collection[NodeId],
        targets: Collection[NodeId],
        now: float,
    ) -> list[NodeId]:
        """The nodes that are to fetch a prefix now, most sessions first, then by name."""
        wanting: list[NodeId] = []
        room = self._policy.replicas_max - len(holding)
        if room <= 0:
            return wanting
        ranked = sorted(prefix.nodes.items(), key=lambda item: (-item[1].sessions, item[0]))
        for node_id, served in ranked:
            if node_id in holding:
                continue
            if served.ordered_s is not None and now - served.ordered_s < REPEAT_S:
                room -= 1  # it is on its way
            elif node_id in targets and served.orders < ORDERS_MAX:
                wanting.append(node_id)
        return wanting[: max(room, 0)]

    def _charge(self, namespace_id: bytes, key: bytes, node_id: NodeId, now: float) -> None:
        """Note an order: for the budget, and for the prefix and all within it."""
        prefix: _Prefix | None = self._prefixes[namespace_id, key]
        assert prefix is not None
        began_s = max(self._spent_s, now - BURST_S)
        self._spent_s = began_s + prefix.blocks / self._policy.blocks_per_s
        while prefix is not None:
            served = _served_by(prefix, node_id)
            served.orders += 1
            served.ordered_s = now
            prefix = self._prefixes.get((namespace_id, prefix.parent_key))

    def _cool(self, now: float) -> None:
        """Halve all counts for every half-life that is over, and drop what has next to none."""
        if self._halved_s is None:
            self._halved_s = now
        while now - self._halved_s >= HALF_LIFE_S and self._prefixes:
            self._halved_s += HALF_LIFE_S
            for prefix in self._prefixes.values():
                prefix.sessions /= 2
                for served in prefix.nodes.values():
                    served.sessions /= 2
            self._drop(0.5)
        if not self._prefixes:
            self._halved_s = now

    def _make_room(self) -> None:
        """Take the median off every count, which drops half of the prefixes at least."""
        median = sorted(prefix.sessions for prefix in self._prefixes.values())[PREFIXES_MAX // 2]
        for prefix in self._prefixes.values():
            prefix.sessions -= median
        self._drop(0.0)

    def _drop(self, sessions_max: float) -> None:
        """Forget the prefixes with so few sessions."""
        kept = {
            at: prefix for at, prefix in self._prefixes.items() if prefix.sessions > sessions_max
        }
        self._prefixes = kept


def _depths(samples: SampledKeys) -> Iterator[tuple[int, bytes]]:
    """The depths at which a prompt is counted, with its keys there; the shallowest first."""
    depth = BLOCKS_MIN
    while depth <= samples.blocks:
        for blocks in (depth, depth * 3 // 2):
            at = bisect_left(samples.positions, blocks)
            if at < len(samples) and samples.positions[at] == blocks:
                yield blocks, samples.keys[at]
        depth *= 2


def _served_by(prefix: _Prefix, node_id: NodeId) -> _Served:
    served = prefix.nodes.get(node_id)
    if served is None:
        if len(prefix.nodes) >= NODES_MAX:
            least = min(prefix.nodes, key=lambda other: (prefix.nodes[other].sessions, other))
            del prefix.nodes[least]
        served = prefix.nodes[node_id] = _Served()
    return served
