"""
Weighted rendezvous hashing of sessions onto nodes. Pure.

Each node draws a number from (session, node); the highest wins. A node that joins or leaves
moves only the sessions that it wins or held. Where weights differ, draws are compared by the
logarithmic method (Schindelhauer and Schomaker, "Weighted distributed hash tables", 2005), so a
node of weight 2 gets twice the sessions of a node of weight 1. Routers and clients share this,
and so agree without talking (I8).

One cryptographic hash of the session is mixed with one of each node, which is made beforehand.
All nodes draw at once: their numbers are lanes of 64 bits in one long integer, so that mixing
is a few multiplications of that, and a thousand nodes take 0.1 ms and not 1 ms. Nodes of equal
weight are compared by whole numbers; only the first of each weight are compared by logarithms. A
machine whose logarithm rounds otherwise could see another order only where two scores agree in
15 digits.
"""

import hashlib
import math
import struct
from collections.abc import Iterable, Sequence
from heapq import nlargest, nsmallest
from itertools import pairwise

from hearthkv.core.session_id import NodeId, SessionId

_LANE_BYTES = 8
_HALF_BITS = 32
_HALF_MASK = (1 << _HALF_BITS) - 1
_MIXERS = (0x21F0AAAD, 0x735A2D97, 0x2C1B3C6D)
"""Odd factors that mix 32 bits well; the first and last are Wellons' for hashes of that width."""

_NUMBER_BITS = 16
_NUMBER_MASK = (1 << _NUMBER_BITS) - 1


class Rendezvous:
    """
    The hash over one list of nodes, for whoever asks it more than once.

    Args:
        nodes: Ids, each once, with weights over 0 and finite. 65,536 nodes at most.
    """

    def __init__(self, nodes: Iterable[tuple[NodeId, float]]) -> None:
        ordered = sorted((weight, node_id) for node_id, weight in nodes)
        count = len(ordered)
        self._node_ids = [node_id for _, node_id in ordered]
        self._groups = _groups([weight for weight, _ in ordered])
        hashes = [_hash64(node_id) for node_id in self._node_ids]
        self._low = _lanes(hashed & _HALF_MASK for hashed in hashes)
        self._high = _lanes(hashed >> _HALF_BITS for hashed in hashes)
        self._ones = _lanes(1 for _ in hashes)
        self._half_masks = self._ones * _HALF_MASK
        # A draw carries its node's number, so that ties go to the smaller id.
        self._numbers = _lanes(range(count - 1, -1, -1))

    def __len__(self) -> int:
        return len(self._node_ids)

    def owner(self, session_id: SessionId) -> NodeId | None:
        """Return the node that owns the session; None where there are no nodes."""
        return next(iter(self.first(session_id, 1)), None)

    def rank(self, session_id: SessionId) -> list[NodeId]:
        """Return all nodes in the order in which they would own the session."""
        return self.first(session_id, len(self))

    def first(self, session_id: SessionId, count: int) -> list[NodeId]:
        """Return the first `count` nodes of `rank`, or all that there are."""
        draws = self._draws(session_id)
        if len(self._groups) == 1:
            return [self._node_of(draw) for draw in nlargest(count, draws)]
        scored = [
            (-_score(draw, weight), self._node_of(draw))
            for weight, start, stop in self._groups
            for draw in nlargest(count, draws[start:stop])
        ]
        return [node_id for _, node_id in nsmallest(count, scored)]

    def _draws(self, session_id: SessionId) -> tuple[int, ...]:
        """All draws: 32 bits each, and the number of the node below them."""
        hashed = _hash64(session_id)
        mixed = self._low ^ self._ones * (hashed & _HALF_MASK)
        mixed = self._fold(mixed * _MIXERS[0])
        mixed ^= self._high ^ self._ones * (hashed >> _HALF_BITS)
        mixed = self._fold(self._fold(mixed * _MIXERS[1]) * _MIXERS[2])
        draws = mixed << _NUMBER_BITS | self._numbers
        return struct.unpack(f"<{len(self)}Q", draws.to_bytes(len(self) * _LANE_BYTES, "little"))

    def _fold(self, lanes: int) -> int:
        """Lay the upper half of every lane over its lower one."""
        return (lanes ^ lanes >> _HALF_BITS) & self._half_masks

    def _node_of(self, draw: int) -> NodeId:
        return self._node_ids[len(self) - 1 - (draw & _NUMBER_MASK)]


def rank(session_id: SessionId, nodes: Iterable[tuple[NodeId, float]]) -> list[NodeId]:
    """Return what a `Rendezvous` of the nodes would, for whoever asks it once."""
    return Rendezvous(nodes).rank(session_id)


def owner(session_id: SessionId, nodes: Iterable[tuple[NodeId, float]]) -> NodeId | None:
    """Return what a `Rendezvous` of the nodes would, for whoever asks it once."""
    return Rendezvous(nodes).owner(session_id)


def _groups(weights: Sequence[float]) -> list[tuple[float, int, int]]:
    """Each weight that occurs, with the start and stop of its run; the weights ascend."""
    starts = [at for at, weight in enumerate(weights) if at == 0 or weight != weights[at - 1]]
    return [(weights[start], start, stop) for start, stop in pairwise([*starts, len(weights)])]


def _hash64(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def _lanes(values: Iterable[int]) -> int:
    packed = b"".join(value.to_bytes(_LANE_BYTES, "little") for value in values)
    return int.from_bytes(packed, "little")


def _score(draw: int, weight: float) -> float:
    # A float in (0, 1) exactly, so the logarithm is finite and negative.
    return -weight / math.log(((draw >> _NUMBER_BITS) + 0.5) / (_HALF_MASK + 1))
