"""
A cluster of some size, as the router sees it, and the sessions that grow in it.

The cluster is the router's real one; nodes and clients are no more than what they would say. Keys
are drawn anew whenever they are wanted, so that the memory measured is the router's.
"""

import gc
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hearthkv.core import rendezvous
from hearthkv.core.block_key import PackedKeys, SampledKeys
from hearthkv.core.routing import (
    BlockEvent,
    CacheHint,
    EventBatch,
    NodeEndpoint,
    NodeHello,
    NodeLoad,
    RouteQuery,
    SnapshotPart,
)
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier
from router.cluster import Cluster
from router.membership import StreamId
from router.settings import RouterSettings

NAMESPACE = b"n" * 16
BLOCK_SIZE = 16
KEY_BYTES = 16

TURNS = 3
"""Turns in which a session comes to its length."""

SYSTEM_PROMPTS = 200
"""Prompts that sessions begin with; the first are more common than the last."""

NODE_TOKENS_PER_S = 8000.0
USED_SHARE = 0.6
"""Share of what the engines could compute that sessions ask for."""

ASKED_AGAIN = 2000
"""Sessions that have another turn, or are asked for their home, after a change."""


@dataclass(frozen=True)
class Scale:
    """How much there is of everything."""

    nodes: int
    sessions: int
    blocks: int
    """Over all sessions, those of the shared system prompts not counted."""


@dataclass
class Change:
    """What a node that came or went did to the sessions."""

    rehomed_share: float
    """Sessions whose home is another one now."""

    moved_share: float
    """Sessions with blocks in the cluster whose next turn went to another node."""


@dataclass
class Figures:
    """What was measured at one scale."""

    scale: Scale
    seed: int
    decision_us: list[float] = field(repr=False)
    """Processor time of each decision, so that a busy machine changes it little."""

    indexed_keys: int
    index_bytes: int
    """What the process grew by, sessions and nodes included."""

    sessions_by_node: list[int] = field(repr=False)
    tokens_by_node: list[int] = field(repr=False)
    """Prompt tokens that each node had to compute."""

    hit_share: float
    joined: Change
    left: Change

    @property
    def decisions_per_s(self) -> float:
        """Decisions that one process takes in a second of doing nothing else."""
        return 1e6 * len(self.decision_us) / sum(self.decision_us)

    def decision_percentile_us(self, percent: int) -> float:
        """Time that so many percent of the decisions took at most."""
        ordered = sorted(self.decision_us)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def imbalance(counts: list[int]) -> float:
    """The largest count over the mean."""
    return max(counts) / (sum(counts) / len(counts))


class Growth:
    """
    Lets a cluster fill.

    Args:
        scale: How large it is.
        seed: Draws sessions and keys.
    """

    def __init__(self, scale: Scale, seed: int) -> None:
        self.scale = scale
        self.seed = seed
        self.now = 0.0
        self.cluster = Cluster(
            RouterSettings(
                nodes_max=scale.nodes + 1,
                index_keys_max=4 * scale.blocks,
                sessions_max=scale.sessions + 1,
            )
        )
        self._sequences: Counter[NodeId] = Counter()
        self._computed: Counter[NodeId] = Counter()
        self._sessions: Counter[NodeId] = Counter()
        self._decision_us: list[float] = []
        self._prompt_tokens = 0
        chance = random.Random(seed)
        mean_blocks = scale.blocks / scale.sessions
        self._lengths = [
            max(TURNS, int(chance.expovariate(1 / mean_blocks))) for _ in range(scale.sessions)
        ]
        # The common ones are much more common, as system prompts of agents are.
        self._prompts = [
            min(SYSTEM_PROMPTS - 1, int(chance.paretovariate(0.8)) - 1)
            for _ in range(scale.sessions)
        ]

    def run(self) -> Figures:
        """Fill the cluster, have a node join and one leave, and say what was measured."""
        before_bytes = _process_bytes()
        for number in range(self.scale.nodes):
            self._join(number)
        self._grow()
        gc.collect()
        grown_bytes = _process_bytes() - before_bytes
        sessions = [self._sessions[_name(number)] for number in range(self.scale.nodes)]
        tokens = [self._computed[_name(number)] for number in range(self.scale.nodes)]
        decision_us = self._decision_us
        computed = sum(tokens)
        joined = self._change(lambda: self._join(self.scale.nodes))
        left = self._change(self._lose_first)
        return Figures(
            scale=self.scale,
            seed=self.seed,
            decision_us=decision_us,
            indexed_keys=self.cluster.index.keys,
            index_bytes=grown_bytes,
            sessions_by_node=sessions,
            tokens_by_node=tokens,
            hit_share=1 - computed / self._prompt_tokens,
            joined=joined,
            left=left,
        )

    def _grow(self) -> None:
        """Let all sessions have their turns, those of one session far apart."""
        chance = random.Random(self.seed + 1)
        order = list(range(self.scale.sessions))
        for turn in range(1, TURNS + 1):
            chance.shuffle(order)
            for session in order:
                self._play(session, self._lengths[session] * turn // TURNS)
                if turn == TURNS:
                    node_id = self.cluster.sessions.node_of(_session(session))
                    assert node_id is not None
                    self._sessions[node_id] += 1

    def _play(self, session: int, own_blocks: int) -> NodeId:
        """Have a turn placed, and let its node hold the prompt; return the node."""
        keys = self._keys(session, own_blocks)
        query = RouteQuery(
            _session(session),
            NAMESPACE,
            SampledKeys.all_of(keys),
            CacheHint.REUSE,
            len(keys) * BLOCK_SIZE,
            BLOCK_SIZE,
        )
        started_ns = time.thread_time_ns()
        routed = self.cluster.route(query, self.now)
        self._decision_us.append((time.thread_time_ns() - started_ns) / 1000)
        route = routed.route
        node_id = route.node.node_id
        # A pull brings what another node holds, at the price of a copy.
        pulled = max((source.blocks for source in route.pull_from), default=0)
        held = route.matched.total
        new_tokens = (len(keys) - max(held, pulled)) * BLOCK_SIZE
        self._computed[node_id] += new_tokens
        self._prompt_tokens += len(keys) * BLOCK_SIZE
        self.now += new_tokens / (self.scale.nodes * NODE_TOKENS_PER_S * USED_SHARE)
        self._store(node_id, keys.slice(held, len(keys)))
        return node_id

    def _store(self, node_id: NodeId, keys: PackedKeys) -> None:
        """Let a node say that it holds blocks."""
        if keys:
            self._sequences[node_id] += 1
            event = BlockEvent(NAMESPACE, keys, Tier.DRAM)
            batch = EventBatch(self._sequences[node_id], (event,))
            self.cluster.hear(_stream(node_id), batch, self.now)

    def _change(self, happen: Callable[[], None]) -> Change:
        """Let something happen to the nodes, and see what became of some sessions."""
        chance = random.Random(self.seed + 2)
        asked = chance.sample(range(self.scale.sessions), min(ASKED_AGAIN, self.scale.sessions))
        homes = [self._home(session) for session in asked]
        nodes = [self.cluster.sessions.node_of(_session(session)) for session in asked]
        happen()
        rehomed = sum(
            self._home(session) != home for session, home in zip(asked, homes, strict=True)
        )
        moved = sum(
            self._play(session, self._lengths[session]) != node_id
            for session, node_id in zip(asked, nodes, strict=True)
        )
        return Change(rehomed / len(asked), moved / len(asked))

    def _home(self, session: int) -> NodeId | None:
        live = [(node.node_id, node.weight) for node in self.cluster.membership.live()]
        return rendezvous.owner(_session(session), live)

    def _join(self, number: int) -> None:
        stream = StreamId(number)
        endpoint = NodeEndpoint(_name(number), f"10.0.0.1:{number + 1}", epoch=1)
        empty = SnapshotPart(b"", None, PackedKeys(b""), is_first=True, is_last=True)
        for said in (NodeHello(endpoint), empty, NodeLoad()):
            self.cluster.hear(stream, said, self.now)

    def _lose_first(self) -> None:
        self.cluster.lose(StreamId(0), self.now)

    def _keys(self, session: int, own_blocks: int) -> PackedKeys:
        """The keys of a session's prompt: a system prompt, and what is its own."""
        prompt = self._prompts[session]
        shared = random.Random(-1 - prompt).randbytes(KEY_BYTES * (16 + prompt % 48))
        own = random.Random(session).randbytes(KEY_BYTES * self._lengths[session])
        return PackedKeys(shared + own[: KEY_BYTES * own_blocks], KEY_BYTES)


def _name(number: int) -> NodeId:
    return NodeId(f"node-{number:04d}")


def _stream(node_id: NodeId) -> StreamId:
    return StreamId(int(node_id.rpartition("-")[2]))


def _session(number: int) -> SessionId:
    return SessionId(f"session-{number}")


def _process_bytes() -> int:
    """Memory of this process that is in use now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the system does not say how much memory a process has")
