"""The last list of nodes that a router sent, and who is whose home in it. Pure."""

from collections.abc import Collection, Iterable

from hearthkv.core.rendezvous import Rendezvous
from hearthkv.core.routing import NodeEndpoint, NodeState, PlacementReason, Route
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import TierCounts


class ClusterView:
    """
    What a client knows of the cluster when no router answers.

    A list grows old, never wrong: a node that is gone meanwhile costs a miss.
    """

    def __init__(self) -> None:
        self._live: dict[str, NodeEndpoint] = {}
        self._homes = Rendezvous(())

    def replace(self, nodes: Iterable[NodeEndpoint]) -> None:
        """Forget the last list; only live nodes of the new one are of use."""
        self._live = {node.node_id: node for node in nodes if node.state is NodeState.LIVE}
        self._homes = Rendezvous((node.node_id, node.weight) for node in self._live.values())

    @property
    def nodes(self) -> tuple[NodeEndpoint, ...]:
        """The live nodes, in the router's order; empty where none or no list is known."""
        return tuple(self._live.values())

    def route(self, session_id: SessionId, skipped: Collection[str] = ()) -> Route | None:
        """
        Place a session by its hash, as every router would place a new one (I8).

        Args:
            session_id: The session.
            skipped: Addresses to pass over; the next node in hash order takes their sessions.

        Returns:
            The node, with nothing matched; None where no node is left.
        """
        order = self._homes.rank(session_id)
        for place, node_id in enumerate(order):
            node = self._live[node_id]
            if node.address not in skipped:
                reason = PlacementReason.FAILOVER if place else PlacementReason.HOME
                return Route(node, TierCounts(), order[0], reason)
        return None
