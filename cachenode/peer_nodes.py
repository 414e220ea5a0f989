"""The way to other nodes: the calls of the client library, over a connection for each task."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from hearthkv.client.channels import Channels
from hearthkv.client.deadline import Deadline
from hearthkv.client.node_client import NodeClient
from hearthkv.client.peer_calls import PeerCalls
from hearthkv.client.peers import Peers
from hearthkv.client.prefix_assembly import PrefixAssembly
from hearthkv.client.pull_call import PullCall
from hearthkv.client.settings import ClientSettings
from hearthkv.core.block_io import DropTarget, ReadQuery
from hearthkv.core.clock import Clock
from hearthkv.core.pulls import Lineage, LineageQuery, PullQuery
from hearthkv.telemetry import NoMeters, Telemetry


class PeerNode(Protocol):
    """What a node asks of another one. Every method raises PeerErrors, and no other."""

    async def lineage(self, query: LineageQuery) -> Lineage:
        """Ask for the keys of the prefix that ends in a block."""
        ...

    async def read(self, query: ReadQuery, assembly: PrefixAssembly, deadline: Deadline) -> None:
        """Read blocks into an assembly until it is over; what it counts then is right."""
        ...

    async def drop(self, target: DropTarget) -> int:
        """Have blocks forgotten; return how many were."""
        ...

    def pull(self, query: PullQuery, limit_s: float) -> PullCall:
        """Have it fetch a prefix from a third node; the caller closes the call."""
        ...


OpenPeer = Callable[[str], AbstractAsyncContextManager[PeerNode]]
"""Opens the way to the node at an address, host:port, until the body is left."""


class PeerNodes:
    """
    Opens ways to other nodes.

    Each has a connection of its own, which is closed behind it. So there are as many as there are
    tasks, whatever addresses callers name.

    Args:
        clock: For cool-downs of nodes that failed.
        stall_s: Seconds without a byte after which a node is given up.
        telemetry: Where it is logged that a node failed. The client's metrics are not moved.
    """

    def __init__(self, clock: Clock, stall_s: float, telemetry: Telemetry) -> None:
        self._settings = ClientSettings(stall_s=stall_s)
        peers = Peers(self._settings.cooldown_s, self._settings.cooldown_s_max)
        self._calls = PeerCalls(peers, clock, telemetry.with_meters(NoMeters()))

    @asynccontextmanager
    async def open(self, address: str) -> AsyncIterator[PeerNode]:
        """Open the way to a node."""
        channels = Channels()
        try:
            yield NodeClient(address, channels.channel(address), self._calls, self._settings)
        finally:
            await channels.close()
