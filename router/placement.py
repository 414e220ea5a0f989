"""
Choose the node for one turn. Pure: the same view gives the same node on every router (I8).

In order:

1. Without a live node there is no placement.
2. A turn stays: it goes to the node of the session's last turn if that is live, else to its
   home, the live node that the hash of the session's id names.
3. With the hint `reuse` it moves to the node with the longest match, if that is longer than
   what the session's own node holds, and worth it: at least `min_fraction` of the prompt's
   blocks, or `min_gain_blocks` more than there. Short matches don't move a turn, because all
   prompts of an agent share their first blocks, and all traffic would land on one node; for
   the same reason the node of rule 2 is preferred among equals.

A prompt without keys matches nothing, so its session's last node stands for the prefix.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hearthkv.core import rendezvous
from hearthkv.core.errors import NoNodeError
from hearthkv.core.routing import CacheHint, PlacementReason
from hearthkv.core.session_id import NodeId, SessionId


@dataclass(frozen=True, slots=True)
class ReusePolicy:
    """When a match is worth moving a session."""

    min_fraction: float = 0.5
    """Share of the prompt's blocks."""

    min_gain_blocks: int = 32
    """Blocks more than the session's own node holds; a new session has none."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that wants a node."""

    session_id: SessionId
    hint: CacheHint
    blocks: int
    """Full blocks of the prompt that the caller gave keys for."""

    last_node_id: NodeId | None
    """Node of the session's last turn, be it live or not; None for a new session."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The node for a turn."""

    node_id: NodeId
    home_node_id: NodeId
    reason: PlacementReason


def place(
    turn: Turn,
    *,
    weights: Sequence[tuple[NodeId, float]],
    matched_blocks: Mapping[NodeId, int],
    policy: ReusePolicy,
) -> Choice:
    """
    Choose the node for one turn.

    Args:
        turn: The turn.
        weights: The live nodes with their weights, in any order.
        matched_blocks: Leading blocks of the prompt by node; nodes that are not live may occur
            and are not considered, nodes without a match may be absent.
        policy: When a match is worth a move.

    Raises:
        NoNodeError: If no node is live.
    """
    home = rendezvous.owner(turn.session_id, weights)
    if home is None:
        raise NoNodeError("0 cache nodes are live, at least 1 must be")
    live = {node_id for node_id, _ in weights}
    stay = _stay(turn.last_node_id, live, home)
    if turn.hint is not CacheHint.REUSE:
        return stay
    # Among equals the turn stays; then the smaller id wins, so that two routers agree.
    best = min(
        live,
        key=lambda node_id: (-matched_blocks.get(node_id, 0), node_id != stay.node_id, node_id),
    )
    is_at_own = stay.reason is PlacementReason.SESSION
    own_blocks = matched_blocks.get(stay.node_id, 0) if is_at_own else 0
    if _is_worth_a_move(matched_blocks.get(best, 0), own_blocks, turn.blocks, policy):
        return Choice(best, home, PlacementReason.PREFIX)
    return stay


def _stay(last_node_id: NodeId | None, live: set[NodeId], home: NodeId) -> Choice:
    if last_node_id is None:
        return Choice(home, home, PlacementReason.HOME)
    if last_node_id in live:
        return Choice(last_node_id, home, PlacementReason.SESSION)
    return Choice(home, home, PlacementReason.FAILOVER)


def _is_worth_a_move(best: int, own: int, blocks: int, policy: ReusePolicy) -> bool:
    gain = best - own
    return gain > 0 and (best >= policy.min_fraction * blocks or gain >= policy.min_gain_blocks)
