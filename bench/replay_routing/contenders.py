"""The ways to choose a node that the replay compares."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from bench.replay_routing.nodes import NAMESPACE_ID, ReplayedNode, RunKeys, Turn
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.rendezvous import Rendezvous
from hearthkv.core.routing import (
    CacheHint,
    EventBatch,
    NodeEndpoint,
    NodeHello,
    RouteQuery,
    SnapshotPart,
)
from hearthkv.core.session_id import NodeId
from router.cluster import Cluster
from router.outcome import StreamId
from router.settings import RouterSettings


class Contender(Protocol):
    """A way to choose."""

    def choose(self, turn: Turn) -> tuple[int, Sequence[int]]:
        """Return the number of the node for a turn, and of those to fetch the prefix from."""
        ...

    def note(self, node: int) -> None:
        """Learn that a node has served the turn."""
        ...


class RoundRobin:
    """Each node in turn."""

    def __init__(self, nodes: Sequence[ReplayedNode]) -> None:
        self._nodes = nodes
        self._turns = 0

    def choose(self, turn: Turn) -> tuple[int, Sequence[int]]:  # noqa: ARG002  # whatever it is
        """Return the next node."""
        self._turns += 1
        return self._turns % len(self._nodes), ()

    def note(self, node: int) -> None:
        """Learn nothing."""


class SessionHash:
    """The session's home by rendezvous hash; with one node, the pooled cache."""

    def __init__(self, nodes: Sequence[ReplayedNode]) -> None:
        self._homes = Rendezvous((name_of(number), 1.0) for number in range(len(nodes)))

    def choose(self, turn: Turn) -> tuple[int, Sequence[int]]:
        """Return the home."""
        home = self._homes.owner(turn.session_id)
        assert home is not None  # there are nodes
        return number_of(home), ()

    def note(self, node: int) -> None:
        """Learn nothing."""


class LongestPrefix:
    """Whoever holds most of the prompt; among equals, who has computed least so far."""

    def __init__(self, nodes: Sequence[ReplayedNode]) -> None:
        self._nodes = nodes

    def choose(self, turn: Turn) -> tuple[int, Sequence[int]]:
        """Return the node with the longest match."""
        ranked = [
            (-node.cache.held(turn.prompt), node.tally.computed_tokens, number)
            for number, node in enumerate(self._nodes)
        ]
        return min(ranked)[2], ()

    def note(self, node: int) -> None:
        """Learn nothing: the nodes know what they computed."""


class RealRouter:
    """The router's own code, fed with the events of the nodes."""

    def __init__(
        self, nodes: Sequence[ReplayedNode], keys: RunKeys, block_tokens: int, *, pulls: bool
    ) -> None:
        self._nodes = nodes
        self._keys = keys
        self._block_tokens = block_tokens
        self._pulls = pulls
        self._sequences = [0] * len(nodes)
        self._now = 0.0
        self.reasons: Counter[str] = Counter()
        self.cluster = Cluster(RouterSettings())
        for number in range(len(nodes)):
            stream, endpoint = StreamId(number), NodeEndpoint(name_of(number), f"{number}:1")
            nothing = SnapshotPart(NAMESPACE_ID, None, PackedKeys(b""), True, True)
            self.cluster.hear(stream, NodeHello(endpoint), 0.0)
            self.cluster.hear(stream, nothing, 0.0)

    def choose(self, turn: Turn) -> tuple[int, Sequence[int]]:
        """Return the router's answer."""
        self._now = turn.at_s
        keys = self._keys.of_prompt(turn.prompt)
        query = RouteQuery(
            session_id=turn.session_id,
            namespace_id=NAMESPACE_ID,
            keys=keys,
            hint=CacheHint.REUSE,
            prompt_tokens=turn.tokens,
            block_size=self._block_tokens,
        )
        route = self.cluster.route(query, turn.at_s).route
        self.reasons[route.reason.value] += 1
        sources = [number_of(source.node.node_id) for source in route.pull_from]
        return number_of(route.node.node_id), sources if self._pulls else ()

    def note(self, node: int) -> None:
        """Hear what came to the node, and what went."""
        self._sequences[node] += 1
        batch = EventBatch(self._sequences[node], self._nodes[node].take_events())
        self.cluster.hear(StreamId(node), batch, self._now)


def name_of(number: int) -> NodeId:
    """The id of a node."""
    return NodeId(f"node-{number}")


def number_of(node_id: NodeId) -> int:
    """The number of a node."""
    return int(node_id.removeprefix("node-"))


Make = Callable[[Sequence[ReplayedNode], RunKeys, int], Contender]

POOLED = "one pooled cache"
OURS = "HearthKV"
CONTENDERS: dict[str, Make] = {
    "round robin": lambda nodes, _keys, _tokens: RoundRobin(nodes),
    "session hash": lambda nodes, _keys, _tokens: SessionHash(nodes),
    "longest prefix": lambda nodes, _keys, _tokens: LongestPrefix(nodes),
    f"{OURS}, no pulls": lambda nodes, keys, tokens: RealRouter(nodes, keys, tokens, pulls=False),
    OURS: lambda nodes, keys, tokens: RealRouter(nodes, keys, tokens, pulls=True),
    POOLED: lambda nodes, _keys, _tokens: SessionHash(nodes),
}
"""The rows of the table. The pooled cache is one node as large as all."""
