"""
Choose the node for one turn. Pure: the same view gives the same node on every router (I8).

In order:

1. Without a live node there is no placement.
2. A turn *stays*: it goes to the node of the session's last turn if that serves, else to its
   home, the live node that the hash of the session's id names. A draining node serves the
   sessions that it has, and gets no others.
3. With the hint `reuse` it *moves for a prefix* to the node with the longest match, if that is
   longer than what the session's own node holds, and worth it: at least `reuse_min_fraction` of
   the prompt's blocks, or `reuse_min_gain_blocks` more than there. Short matches don't move a
   turn, because all prompts of an agent share their first blocks, and all traffic would land
   on one node.
4. With the hint, a turn that has to compute a good part of its prompt anyway, because no node
   holds `settled_fraction` of it, goes *where there is room*: of the nodes that are not busy, to
   the one whose cache is wanted least. What is held elsewhere is copied there.
5. With the hint, any other turn stays until its node is *saturated*: until it has more tokens to
   compute than another, by `spill_tokens` and by what the copy costs. Then it spills to that one.

For 4 and 5 the first nodes in the session's hash order are looked at, not all: eight are as good
as all, and a decision costs the same with a thousand nodes. Ties go to the node where the turn
would stay, then by the order of the hash, at last by id.

A prompt without keys matches nothing, so its session's last node stands for the prefix, and it
stays there.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import NamedTuple, Protocol

from hearthkv.core.errors import NoNodeError
from hearthkv.core.routing import CacheHint, PlacementReason
from hearthkv.core.session_id import NodeId

CANDIDATES_MAX = 8
"""Nodes of the session's hash order that a turn may move to for want of room or time."""

ROOM_PER_COPIED = 0.25
"""Tokens that must be wanted less on a node for each that is copied there to make use of that."""

EQUALS_MAX = 8
"""Nodes with equal matches that are told apart by their tiers."""


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """When a turn moves; `RouterSettings` says what the fields mean."""

    reuse_min_fraction: float = 0.5
    reuse_min_gain_blocks: int = 32
    settled_fraction: float = 0.6
    room_min_tokens: int = 2048
    spill_tokens: float = 20_000.0
    copy_cost: float = 4.0


class LastTurn(NamedTuple):
    """Where a session was."""

    node_id: NodeId
    is_handed_over: bool = False
    """Whether a node that left has brought it there, and it had no turn since."""


class Turn(NamedTuple):
    """A turn that wants a node. A tuple, like what else each turn makes anew: that is quicker."""

    hint: CacheHint
    blocks: int
    """Full blocks of the prompt that the caller gave keys for."""

    block_tokens: int
    last: LastTurn | None
    """None for a new session."""


class Nodes(Protocol):
    """What is known of the nodes, as far as a decision asks."""

    def is_live(self, node_id: NodeId) -> bool:
        """Whether a node may get sessions that it does not have."""
        ...

    def is_serving(self, node_id: NodeId) -> bool:
        """Whether a node serves the sessions that it has."""
        ...

    def load_tokens(self, node_id: NodeId) -> float:
        """What a node has yet to compute."""
        ...

    def wanted_tokens(self, node_id: NodeId) -> float:
        """What lies on a node and is likely to be wanted, by other sessions than the turn's."""
        ...

    def slow_blocks(self, node_id: NodeId, blocks: int) -> int:
        """How many of the prompt's leading blocks lie on a node's SSD."""
        ...


class Choice(NamedTuple):
    """The node for a turn."""

    node_id: NodeId
    home_node_id: NodeId
    reason: PlacementReason


def place(
    turn: Turn,
    *,
    ranked: Sequence[NodeId],
    matched_blocks: Mapping[NodeId, int],
    nodes: Nodes,
    policy: PlacementPolicy,
) -> Choice:
    """
    Choose the node for one turn.

    Args:
        turn: The turn.
        ranked: The first live nodes in the order in which they would own the session.
        matched_blocks: Leading blocks of the prompt by node, longest first; nodes that are not
            live may occur and are not considered, nodes without a match may be absent.
        nodes: The nodes.
        policy: When a turn moves.

    Raises:
        NoNodeError: If no node is live.
    """
    if not ranked:
        raise NoNodeError("0 cache nodes are live, at least 1 must be")
    decision = _Decision(turn, ranked, matched_blocks, nodes, policy)
    stay = decision.stay()
    if turn.hint is not CacheHint.REUSE:
        return stay
    base = decision.at_prefix(stay)
    if decision.is_to_be_computed():
        return decision.with_room(base)
    is_known = turn.blocks > 0 or turn.last is None
    if not is_known or not nodes.is_live(base.node_id):
        # A prefix that has no keys can't be copied; one on a draining node is about to be.
        return base
    return decision.unless_saturated(base)


@dataclass(slots=True)
class _Decision:
    """The steps of one decision; each takes the choice so far and returns the next."""

    turn: Turn
    ranked: Sequence[NodeId]
    matched_blocks: Mapping[NodeId, int]
    nodes: Nodes
    policy: PlacementPolicy

    def stay(self) -> Choice:
        """The session's node, or its home."""
        last, home = self.turn.last, self.ranked[0]
        if last is None:
            return Choice(home, home, PlacementReason.HOME)
        if not self.nodes.is_serving(last.node_id):
            return Choice(home, home, PlacementReason.FAILOVER)
        reason = PlacementReason.DRAIN if last.is_handed_over else PlacementReason.SESSION
        return Choice(last.node_id, home, reason)

    def at_prefix(self, stay: Choice) -> Choice:
        """The node with the longest match, if that is worth a move."""
        best = self._best(stay.node_id)
        is_at_own = stay.reason in (PlacementReason.SESSION, PlacementReason.DRAIN)
        if best is None or (is_at_own and best == stay.node_id):
            return stay
        blocks = self._held(best)
        gain = blocks - (self._held(stay.node_id) if is_at_own else 0)
        is_worth_it = blocks >= self.policy.reuse_min_fraction * self.turn.blocks
        if gain > 0 and (is_worth_it or gain >= self.policy.reuse_min_gain_blocks):
            return Choice(best, stay.home_node_id, PlacementReason.PREFIX)
        return stay

    def is_to_be_computed(self) -> bool:
        """Whether a good part of the prompt has to be computed, whoever gets it."""
        blocks = self.turn.blocks
        # A suspect node can't be read; the others can, draining or not.
        readable = (self._held(n) for n in self.matched_blocks if self.nodes.is_serving(n))
        held = next(readable, 0)
        missing_tokens = (blocks - held) * self.turn.block_tokens
        is_settled = held >= self.policy.settled_fraction * blocks
        return not is_settled and missing_tokens >= self.policy.room_min_tokens

    def with_room(self, base: Choice) -> Choice:
        """The node whose cache is wanted least."""
        # The base first, so that it wins ties, and then the session's own node.
        first = (base.node_id, self.stay().node_id, *self.ranked)
        live = [node_id for node_id in dict.fromkeys(first) if self.nodes.is_live(node_id)]
        return self._moved(base, live)

    def unless_saturated(self, base: Choice) -> Choice:
        """Stay, if no node would be so much sooner that it outweighs the copy."""
        spare = self.nodes.load_tokens(base.node_id) - self.policy.spill_tokens
        if spare <= 0:
            return base
        held = self._held(base.node_id)
        cost = self.turn.block_tokens * self.policy.copy_cost
        sooner = [
            node_id
            for node_id in self.ranked
            if self.nodes.load_tokens(node_id) + max(held - self._held(node_id), 0) * cost < spare
        ]
        return self._moved(base, sooner) if sooner else base

    def _held(self, node_id: NodeId) -> int:
        return self.matched_blocks.get(node_id, 0)

    def _best(self, stay_id: NodeId) -> NodeId | None:
        """The node with the longest match that may get the turn; None where none has a match."""
        fit = (n for n in self.matched_blocks if n == stay_id or self.nodes.is_live(n))
        best = next(fit, None)
        if best is None:
            return None
        longest = self._held(best)
        # What is shorter is not searched for where a turn stays, which most do.
        if self._held(stay_id) == longest:
            return stay_id
        others = takewhile(lambda node_id: self._held(node_id) == longest, fit)
        equals = [best, *islice(others, EQUALS_MAX - 1)]
        equals = [node_id for node_id in self.ranked if self._held(node_id) == longest] or equals
        if len(equals) == 1:
            return equals[0]
        # DRAM before SSD; the order is that of the hash, or else of the ids.
        return min(equals, key=lambda node_id: self.nodes.slow_blocks(node_id, longest))

    def _moved(self, base: Choice, candidates: Sequence[NodeId]) -> Choice:
        """Of those that are as good as idle among them, the node whose cache is wanted least."""
        loads = [self.nodes.load_tokens(node_id) for node_id in candidates]
        held = [self._held(node_id) for node_id in candidates]
        busy, longest = min(loads) + self.policy.spill_tokens, max(held)
        token_cost = ROOM_PER_COPIED * self.turn.block_tokens
        costs = [
            self.nodes.wanted_tokens(node_id) + token_cost * (longest - blocks)
            if load <= busy
            else math.inf
            for node_id, load, blocks in zip(candidates, loads, held, strict=True)
        ]
        node_id = candidates[costs.index(min(costs))]
        if node_id == base.node_id:
            return base
        stay = self.stay()
        if node_id == stay.node_id:
            return stay
        reason = PlacementReason.SPILL
        if base.reason is PlacementReason.FAILOVER:
            reason = base.reason
        elif not self.nodes.is_live(base.node_id):
            reason = PlacementReason.DRAIN
        return Choice(node_id, base.home_node_id, reason)
