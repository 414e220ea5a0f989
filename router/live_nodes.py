"""
The nodes that may get turns, in the shapes that decisions ask for. Pure.

They are prepared when the list of nodes changes, so that a turn does not walk over all nodes.
The order of the hash, which does, is remembered for the sessions that are under way.
"""

from collections.abc import Sequence

from hearthkv.core.rendezvous import Rendezvous
from hearthkv.core.routing import NodeEndpoint, NodeState
from hearthkv.core.session_id import NodeId, SessionId
from router.placement import CANDIDATES_MAX


class LiveNodes:
    """
    The nodes as of the last `follow`.

    Args:
        ranks_max: Sessions whose order is remembered.
    """

    def __init__(self, ranks_max: int) -> None:
        self._ranks_max = ranks_max
        self._version = 0
        self._weights: dict[NodeId, float] = {}
        self._homes = Rendezvous(())
        self._serving: frozenset[NodeId] = frozenset()
        self._ranks: dict[SessionId, Sequence[NodeId]] = {}

    def follow(self, version: int, nodes: Sequence[NodeEndpoint]) -> None:
        """Take in the list of nodes, if it is another than the last one."""
        if version == self._version:
            return
        self._version = version
        weights = {node.node_id: node.weight for node in nodes if node.state is NodeState.LIVE}
        self._serving = frozenset(
            node.node_id for node in nodes if node.state is not NodeState.SUSPECT
        )
        if weights != self._weights:
            self._weights = weights
            self._homes = Rendezvous(weights.items())
            self._ranks.clear()

    @property
    def live(self) -> Sequence[NodeId]:
        """The nodes that may get new sessions."""
        return tuple(self._weights)

    def is_live(self, node_id: NodeId) -> bool:
        """Return whether a node may get new sessions."""
        return node_id in self._weights

    def is_serving(self, node_id: NodeId) -> bool:
        """Return whether a node serves the sessions that it has: it is live or draining."""
        return node_id in self._serving

    def weight(self, node_id: NodeId) -> float:
        """Return the weight of a live node; 1 for any other."""
        return self._weights.get(node_id, 1.0)

    def ranked(self, session_id: SessionId) -> Sequence[NodeId]:
        """Return the first live nodes in the order in which they would own a session."""
        ranked = self._ranks.get(session_id)
        if ranked is None:
            if len(self._ranks) >= self._ranks_max:
                del self._ranks[next(iter(self._ranks))]
            ranked = self._homes.first(session_id, CANDIDATES_MAX)
            self._ranks[session_id] = ranked
        return ranked
