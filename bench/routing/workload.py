"""
Sessions that lie on the nodes of a cluster, and their next turns. Pure: the seed is the number.

A quarter of the blocks belongs to sessions of each length but the longest, which has the rest, so
that a router's index has as many blocks as it is told whatever the number of nodes. All sessions
begin with the same system prompt. Every second node has the first part of its blocks on SSD.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.key_samples import sample
from hearthkv.core.routing import CacheHint, NodeEndpoint, RouteQuery, SnapshotPart
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier

NAMESPACE = b"n" * 16
BLOCK_SIZE = 16
KEY_BYTES = 16
PROMPT_TOKENS = (1_000, 8_000, 64_000, 230_000)
SYSTEM_BLOCKS = 32
TURN_BLOCKS = 20
"""Blocks that a turn adds to what its node holds."""

PART_KEYS = 4_096


@dataclass(frozen=True, slots=True)
class Session:
    """A session, which one node holds but for its next turn."""

    number: int
    prompt_tokens: int
    """Of its next turn."""

    node: int

    @property
    def session_id(self) -> SessionId:
        """Its name."""
        return SessionId(f"session-{self.number}")

    @property
    def blocks(self) -> int:
        """Full blocks of its next turn."""
        return self.prompt_tokens // BLOCK_SIZE

    @property
    def held_blocks(self) -> int:
        """Leading blocks that its node holds."""
        return self.blocks - TURN_BLOCKS

    def keys(self) -> PackedKeys:
        """All keys of its next turn."""
        system = random.Random("system").randbytes(SYSTEM_BLOCKS * KEY_BYTES)
        own = random.Random(self.number).randbytes((self.blocks - SYSTEM_BLOCKS) * KEY_BYTES)
        return PackedKeys(system + own)

    def query(self) -> RouteQuery:
        """What a client asks about its next turn."""
        return RouteQuery(
            session_id=self.session_id,
            namespace_id=NAMESPACE,
            keys=sample(self.keys(), self.held_blocks),
            settled_blocks=self.held_blocks,
            hint=CacheHint.REUSE,
            prompt_tokens=self.prompt_tokens,
            block_size=BLOCK_SIZE,
        )


@dataclass(frozen=True, slots=True)
class Workload:
    """So many blocks on so many nodes."""

    nodes: int
    blocks: int

    def sessions(self) -> dict[int, list[Session]]:
        """The sessions, by the length of their next turn; at least one of each."""
        by_tokens: dict[int, list[Session]] = {}
        left, number = self.blocks, 0
        for tokens in PROMPT_TOKENS:
            own_blocks = tokens // BLOCK_SIZE - TURN_BLOCKS - SYSTEM_BLOCKS
            is_last = tokens == PROMPT_TOKENS[-1]
            room = left if is_last else min(self.blocks // 4, 1_000 * own_blocks)
            count = max(1, room // own_blocks)
            by_tokens[tokens] = [
                Session(at, tokens, at % self.nodes) for at in range(number, number + count)
            ]
            number += count
            left -= count * own_blocks
        return by_tokens

    def endpoint(self, node: int) -> NodeEndpoint:
        """A node."""
        return NodeEndpoint(
            NodeId(f"node-{node:04}"), f"10.0.{node // 250}.{node % 250}:7500", epoch=1
        )

    def snapshots(self) -> Iterator[tuple[int, SnapshotPart]]:
        """What each node says that it holds, in parts."""
        of_node: dict[int, list[Session]] = {node: [] for node in range(self.nodes)}
        for sessions in self.sessions().values():
            for session in sessions:
                of_node[session.node].append(session)
        for node, sessions in of_node.items():
            runs = [run for session in sessions for run in _runs(session)]
            if not runs:
                yield node, SnapshotPart(b"", None, PackedKeys(b""), is_first=True, is_last=True)
            for at, (tier, keys) in enumerate(runs):
                yield (
                    node,
                    SnapshotPart(
                        NAMESPACE, tier, keys, is_first=at == 0, is_last=at == len(runs) - 1
                    ),
                )


def _runs(session: Session) -> Iterator[tuple[Tier, PackedKeys]]:
    """The blocks that its node holds, by tier and in parts."""
    keys, on_ssd = session.keys(), session.held_blocks // 3 if session.node % 2 else 0
    for tier, start, stop in ((Tier.SSD, 0, on_ssd), (Tier.DRAM, on_ssd, session.held_blocks)):
        for at in range(start, stop, PART_KEYS):
            yield tier, keys.slice(at, min(at + PART_KEYS, stop))
