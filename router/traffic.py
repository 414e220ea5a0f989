"""
The turns so far, and what they mean for the next one. Pure: the hour is passed in.

Ties sessions, loads and claims together: gives a decision what it asks of the nodes, and takes
in what follows from it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hearthkv.core.routing import PlacementReason
from hearthkv.core.session_id import NodeId, SessionId
from router.live_nodes import LiveNodes
from router.loads import Loads
from router.placement import Choice, PlacementPolicy, Turn, place
from router.room import Claim, Room
from router.sessions import Sessions

RANKS_MAX = 10_000
"""Sessions whose order of nodes is remembered, about 0.2 kB each."""

SlowBlocks = Callable[[NodeId, int], int]
"""How many of a prompt's leading blocks lie on a node's SSD."""


class Served(NamedTuple):
    """What a turn cost that was placed."""

    prompt_tokens: int
    matched_blocks: int
    """Leading blocks that its node holds."""

    missing_tokens: int
    """Tokens that no node holds, so that they have to be computed."""


class Traffic:
    """The sessions and the nodes' loads, as far as this router placed the turns."""

    def __init__(
        self, policy: PlacementPolicy, *, sessions_max: int, prefill_tokens_per_s: float
    ) -> None:
        self.nodes = LiveNodes(min(sessions_max, RANKS_MAX))
        self.sessions = Sessions(sessions_max)
        self._loads = Loads(prefill_tokens_per_s)
        self._room = Room()
        self._policy = policy
        self._said_tokens: dict[NodeId, int] = {}

    def load_tokens(self, node_id: NodeId, now: float) -> float:
        """Return what a node has yet to compute, as it says or as is reckoned here."""
        return self._loads.tokens(node_id, self._said_tokens.get(node_id, 0), now)

    def place(
        self,
        session_id: SessionId,
        turn: Turn,
        matched_blocks: Mapping[NodeId, int],
        slow_blocks: SlowBlocks,
        now: float,
    ) -> Choice:
        """
        Choose the node for a turn; changes nothing.

        Raises:
            NoNodeError: If no node is live.
        """
        return place(
            turn,
            ranked=self.nodes.ranked(session_id),
            matched_blocks=matched_blocks,
            nodes=_NodesAt(self, session_id, slow_blocks, now),
            policy=self._policy,
        )

    def note(self, session_id: SessionId, choice: Choice, served: Served, now: float) -> None:
        """Take in that a turn was placed."""
        node_id = choice.node_id
        if served.missing_tokens > 0:
            self._loads.add(node_id, served.missing_tokens, now)
            self._room.note_computed(node_id, served.missing_tokens, now)
        is_moved_for_good = choice.reason in (PlacementReason.FAILOVER, PlacementReason.DRAIN)
        if not is_moved_for_good and self.sessions.is_aside(session_id, served.prompt_tokens):
            self._room.take(Claim(node_id, served.missing_tokens, now))
            self.sessions.note_aside(
                session_id,
                prompt_tokens=served.prompt_tokens,
                matched_blocks=served.matched_blocks,
                now=now,
            )
            return
        before, claim = self.sessions.claim(session_id), Claim(node_id, served.prompt_tokens, now)
        if before is None:
            self._room.take(claim)
        else:
            self._room.renew(before, claim)
        self.sessions.note_turn(
            session_id,
            node_id,
            prompt_tokens=served.prompt_tokens,
            matched_blocks=served.matched_blocks,
            now=now,
        )

    def wanted_tokens(self, node_id: NodeId, session_id: SessionId, now: float) -> float:
        """Return what other sessions are likely to want of a node's cache, by its weight."""
        wanted = self._room.wanted(node_id, now)
        claim = self.sessions.claim_on(session_id, node_id)
        if claim is not None:
            wanted -= self._room.left(claim, now)
        return wanted / self.nodes.weight(node_id)

    def end(self, session_id: SessionId, now: float) -> NodeId | None:
        """Forget a session; return its node, None if it was not known."""
        claim = self.sessions.claim(session_id)
        if claim is not None:
            self._room.release(claim, now)
        return self.sessions.end(session_id)

    def hand_over(
        self, session_id: SessionId, node_id: NodeId, to_node_id: NodeId, now: float
    ) -> None:
        """Note that a node that is about to leave brought a session's blocks to another."""
        claim = self.sessions.claim(session_id)
        if claim is not None and claim.node_id == node_id:
            self._room.release(claim, now)
            self.sessions.move(session_id, node_id, to_node_id)
            self._room.take(Claim(to_node_id, round(self._room.left(claim, now)), now))

    def hear_load(self, node_id: NodeId, uncached_tokens: int) -> None:
        """Take in what a node says that it has yet to compute."""
        self._said_tokens[node_id] = uncached_tokens

    def join(self, node_id: NodeId, now: float) -> None:
        """Note that a node begins, with an empty cache and nothing to do."""
        self.forget(node_id)
        peers = [peer for peer in self.nodes.live if peer != node_id]
        self._room.join(node_id, peers, now)

    def forget(self, node_id: NodeId) -> None:
        """Forget a node: it is gone."""
        self._loads.forget(node_id)
        self._room.forget(node_id)
        self._said_tokens.pop(node_id, None)


@dataclass(slots=True)
class _NodesAt:
    """What a decision asks of the nodes, at one moment and for one turn."""

    traffic: Traffic
    session_id: SessionId
    slow: SlowBlocks
    now: float

    def is_live(self, node_id: NodeId) -> bool:
        return self.traffic.nodes.is_live(node_id)

    def is_serving(self, node_id: NodeId) -> bool:
        return self.traffic.nodes.is_serving(node_id)

    def load_tokens(self, node_id: NodeId) -> float:
        return self.traffic.load_tokens(node_id, self.now)

    def wanted_tokens(self, node_id: NodeId) -> float:
        return self.traffic.wanted_tokens(node_id, self.session_id, self.now)

    def slow_blocks(self, node_id: NodeId, blocks: int) -> int:
        return self.slow(node_id, blocks)
