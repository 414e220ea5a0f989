"""
Weighted rendezvous hashing of sessions onto nodes. Pure.

Each node draws a score from (session, node); the highest wins. A node that joins or leaves
moves only the sessions that it wins or held. Scores follow the logarithmic method (Schindelhauer
and Schomaker, "Weighted distributed hash tables", 2005), so a node of weight 2 gets twice the
sessions of a node of weight 1. Routers and clients share this, and so agree without talking (I8).
"""

import hashlib
import math
from collections.abc import Iterable

from hearthkv.core.session_id import NodeId, SessionId


def rank(session_id: SessionId, nodes: Iterable[tuple[NodeId, float]]) -> list[NodeId]:
    """
    Return the nodes in the order in which they would own the session; ties go to the smaller id.

    Args:
        session_id: The session.
        nodes: Ids with weights; a weight must be over 0 and finite.
    """
    scored = [(-_score(session_id, node_id, weight), node_id) for node_id, weight in nodes]
    scored.sort()
    return [node_id for _, node_id in scored]


def owner(session_id: SessionId, nodes: Iterable[tuple[NodeId, float]]) -> NodeId | None:
    """Return the node that owns the session; None where there are no nodes."""
    best = min(
        ((-_score(session_id, node_id, weight), node_id) for node_id, weight in nodes),
        default=None,
    )
    return None if best is None else best[1]


def _score(session_id: SessionId, node_id: NodeId, weight: float) -> float:
    # The session's length goes in, so that ("ab", "c") and ("a", "bc") differ.
    session, node = session_id.encode(), node_id.encode()
    text = len(session).to_bytes(4, "little") + session + node
    draw = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    # 52 bits and a half: a float in (0, 1) exactly, so the logarithm is finite and negative.
    return -weight / math.log(((draw >> 12) + 0.5) / 2**52)
