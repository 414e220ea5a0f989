"""Cache nodes of one test that reach each other over gRPC, and sources that misbehave."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from grpc import aio

from cachenode.drain import FindPeers, no_peers
from cachenode.puller import PullLimits
from cachenode.service import CacheNodeService, add_to_server
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.clock import Clock, SystemClock
from hearthkv.core.pulls import PullProgress, PullQuery
from hearthkv.core.routing import NodeEndpoint
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore
from tests.node_rig import BLOCKS_MAX, SPEC, Rig, open_node


class PeerRig(Rig):
    """A node that others reach."""

    address: str
    server: aio.Server
    store: MemoryStore

    @property
    def endpoint(self) -> NodeEndpoint:
        return NodeEndpoint(self.node.identity.node_id, self.address)


@asynccontextmanager
async def open_peer(
    name: str,
    *,
    dram_blocks: int = BLOCKS_MAX,
    limits: PullLimits | None = None,
    find_peers: FindPeers = no_peers,
    clock: Clock | None = None,
) -> AsyncIterator[PeerRig]:
    """Run a node that serves, over DRAM alone, until the body ends."""
    server = aio.server()
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    store = MemoryStore(Tier.DRAM)
    async with open_node(
        {Tier.DRAM: store},
        dram_blocks=dram_blocks,
        ssd_blocks=0,
        clock=clock or SystemClock(),
        node_id=name,
        address=address,
        pull_limits=limits or PullLimits(stall_s=20, pull_s=60),
        find_peers=find_peers,
    ) as rig:
        peer = PeerRig(rig.node, rig.meters)
        peer.address, peer.server, peer.store = address, server, store
        add_to_server(CacheNodeService(rig.node), server)
        await server.start()
        try:
            yield peer
        finally:
            await server.stop(grace=None)


def pull_of(
    keys: Sequence[bytes],
    source: str,
    *,
    session: str | None = None,
    is_tip_only: bool = False,
) -> PullQuery:
    """Ask for a prompt, as a client does that knows all of it; else as a router does."""
    return PullQuery(
        SPEC.namespace_id,
        PackedKeys(b"") if is_tip_only else PackedKeys.join(keys),
        keys[-1],
        source,
        None if session is None else SessionId(session),
        None if is_tip_only else SPEC,
    )


async def pulled(rig: Rig, query: PullQuery) -> PullProgress:
    """Pull, and return how that ended."""
    last = None
    async for progress in rig.node.pulls.pull(query):
        last = progress
    assert last is not None
    assert last.end is not None
    return last


def peers_of(*rigs: PeerRig) -> FindPeers:
    """List some nodes as peers."""

    async def find() -> Sequence[NodeEndpoint]:
        return [rig.endpoint for rig in rigs]

    return find
