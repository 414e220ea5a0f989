"""
What a node that is about to leave hands to whom, and what it has handed over. Pure.

A session goes to the node that would be its home if this one were gone, as routers reckon it, and
stays with that node from then on. It has moved when every prefix that it has here is whole there;
a prefix that grew meanwhile is handed over again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cachenode.lineages import Estate, Tip
from hearthkv.core.rendezvous import rank
from hearthkv.core.routing import NodeEndpoint
from hearthkv.core.session_id import NodeId, SessionId

REFUSED_S: Final = 5.0
"""Seconds for which a session is not offered again to a node that did not take it."""

_Name = tuple[bool, str]  # whether somebody owns it: names of the two kinds may be alike


@dataclass(frozen=True, slots=True)
class Handoff:
    """What is to be handed over, and to whom."""

    estate: Estate
    target: NodeEndpoint


@dataclass(frozen=True, slots=True)
class _Handed:
    node_id: NodeId
    tips: frozenset[Tip]


class Handoffs:
    """Remembers what was handed to whom, of all that is still held."""

    def __init__(self) -> None:
        self._handed: dict[_Name, _Handed] = {}
        self._moved: dict[_Name, _Handed] = {}
        """What was handed over of those that moved, when they did."""

        self._refused: dict[tuple[_Name, NodeId], float] = {}
        """Until when."""

    def plan(
        self, estates: Iterable[Estate], peers: Sequence[NodeEndpoint], now: float
    ) -> Iterator[Handoff]:
        """
        Give what is to be handed over now, in the order of `estates`.

        Args:
            estates: All that is held.
            peers: The nodes that take sessions, in any order; this one is not among them.
            now: The time, in seconds.
        """
        self._refused = {each: until for each, until in self._refused.items() if now < until}
        by_id = {peer.node_id: peer for peer in peers}
        for estate in estates:
            if not self._is_handed(estate, by_id):
                target = self._target(estate, by_id)
                if target is not None:
                    yield Handoff(estate, target)

    def left(self, estates: Iterable[Estate], peers: Sequence[NodeEndpoint]) -> Iterator[Estate]:
        """Give what is not whole on one of the peers."""
        by_id = {peer.node_id: peer for peer in peers}
        return (estate for estate in estates if not self._is_handed(estate, by_id))

    def complete(self, handoff: Handoff) -> None:
        """Learn that a session's prefixes, as they were, are whole on the target."""
        tips = frozenset(handoff.estate.tips)
        self._handed[_name(handoff.estate)] = _Handed(handoff.target.node_id, tips)

    def whole(
        self, estates: Iterable[Estate], peers: Sequence[NodeEndpoint]
    ) -> Iterator[tuple[SessionId, NodeId]]:
        """Give the sessions that are whole on a peer and did not move yet, and that peer."""
        by_id = {peer.node_id: peer for peer in peers}
        for estate in estates:
            handed = self._handed.get(_name(estate))
            is_whole = estate.is_owned and self._is_handed(estate, by_id)
            if handed is not None and is_whole and self._moved.get(_name(estate)) != handed:
                yield estate.name, handed.node_id

    def move(self, session_id: SessionId) -> None:
        """Learn that routers are told where a session is, which is whole there."""
        name = (True, str(session_id))
        self._moved[name] = self._handed[name]

    def refuse(self, handoff: Handoff, now: float) -> None:
        """Learn that the target did not take it: the next one is asked for a while."""
        self._refused[_name(handoff.estate), handoff.target.node_id] = now + REFUSED_S

    def prune(self, estates: Iterable[Estate]) -> None:
        """Forget what is not held any more."""
        names = set(map(_name, estates))
        for known in (self._handed, self._moved):
            for name in [name for name in known if name not in names]:
                del known[name]

    def _is_handed(self, estate: Estate, peers: dict[NodeId, NodeEndpoint]) -> bool:
        handed = self._handed.get(_name(estate))
        return (
            handed is not None and handed.node_id in peers and handed.tips.issuperset(estate.tips)
        )

    def _target(self, estate: Estate, peers: dict[NodeId, NodeEndpoint]) -> NodeEndpoint | None:
        """The peer that has the most of it already, or comes next in the order of homes."""
        name = _name(estate)
        handed = self._handed.get(name)
        order = rank(estate.name, ((peer.node_id, peer.weight) for peer in peers.values()))
        if handed is not None and handed.node_id in peers:
            order.insert(0, handed.node_id)
        fit = (node_id for node_id in order if (name, node_id) not in self._refused)
        node_id = next(fit, None)
        return None if node_id is None else peers[node_id]


def _name(estate: Estate) -> _Name:
    return estate.is_owned, estate.name
