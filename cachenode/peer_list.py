"""The nodes that take sessions of this one when it leaves, as any router lists them."""

from collections.abc import Sequence

from hearthkv.client.channels import Channels
from hearthkv.client.peer_calls import PeerCalls
from hearthkv.client.peers import Peers
from hearthkv.client.router_client import RouterClient
from hearthkv.client.settings import ClientSettings
from hearthkv.core.address import check_host_port
from hearthkv.core.clock import Clock
from hearthkv.core.errors import BadRequestError, PeerError, PeerUnreachableError
from hearthkv.core.routing import NodeEndpoint, NodeState
from hearthkv.core.session_id import NodeId
from hearthkv.telemetry import NoMeters, Telemetry


class PeerList:
    """
    Asks the routers, in the order in which they were named, until one answers.

    Args:
        addresses: Of the routers, host:port.
        own_id: The node that asks, which is not its own peer.
        clock: For cool-downs of routers that do not answer.
        telemetry: Where it is logged that one does not. The client's metrics are not moved.
    """

    def __init__(
        self, addresses: Sequence[str], own_id: NodeId, *, clock: Clock, telemetry: Telemetry
    ) -> None:
        self._own_id = own_id
        self._channels = Channels()
        settings = ClientSettings()
        peers = Peers(settings.cooldown_s, settings.cooldown_s_max)
        calls = PeerCalls(peers, clock, telemetry.with_meters(NoMeters()))
        self._routers = [
            RouterClient(address, self._channels.channel(address), calls, settings)
            for address in addresses
        ]

    async def find(self) -> Sequence[NodeEndpoint]:
        """
        List the live nodes that do not leave, without this one.

        Raises:
            PeerError: If no router answers.
        """
        last_error: PeerError = PeerUnreachableError("no router is named, must be one at least")
        for router in self._routers:
            try:
                nodes = await router.list_nodes()
            except PeerError as error:
                last_error = error
            else:
                return [node.endpoint for node in nodes if self._takes_sessions(node.endpoint)]
        raise last_error

    async def close(self) -> None:
        """Close the connections to the routers."""
        await self._channels.close()

    def _takes_sessions(self, node: NodeEndpoint) -> bool:
        try:
            check_host_port(node.address)
        except BadRequestError:
            return False
        return node.state is NodeState.LIVE and node.node_id != self._own_id
