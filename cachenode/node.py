"""The cache node: what its callers can ask of it, over the catalog and the stores."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Final

from cachenode.block_reader import BlockReader
from cachenode.block_writer import BlockWriter
from cachenode.buffer_pool import BufferPool
from cachenode.catalog import Catalog
from cachenode.direct_reader import DirectReader
from cachenode.direct_writer import DirectWriter
from cachenode.drain import Drain, FindPeers, no_peers
from cachenode.events import (
    NodeMeasured,
    measured,
    show_hit_ratio,
    show_usage,
    show_write_amplification,
)
from cachenode.hit_counts import HitCounts
from cachenode.move_events import show_uncached
from cachenode.node_loads import NodeLoads
from cachenode.peer_nodes import OpenPeer, PeerNodes
from cachenode.puller import Puller, PullLimits
from cachenode.recovery import Recovery
from cachenode.store import BlockStore
from cachenode.store_watch import StoreWatch
from cachenode.tier_mover import TierMover
from cachenode.tier_stores import TierStores
from hearthkv.core.block_io import (
    BlockChunk,
    DropTarget,
    KeysQuery,
    Matched,
    MatchQuery,
    NodeDescription,
    Pinned,
    PinQuery,
    ReadQuery,
    ReadStep,
    WriteStart,
    WriteStatus,
)
from hearthkv.core.clock import Clock
from hearthkv.core.direct_path import Located, LocateQuery, Reservation, ReserveQuery
from hearthkv.core.pulls import Lineage, LineageQuery
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier, TierUsage
from hearthkv.core.turn_end import EndedTurn
from hearthkv.telemetry import Telemetry

TICK_S: Final = 1.0

MEMORY_BYTES_MAX: Final = 256 * 1024 * 1024

MEASURE_S: Final = 60.0
"""Seconds between two log lines that say what the node holds; none where nothing changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """Who a node is."""

    node_id: NodeId
    epoch: int
    """Random, another at every start."""

    version: str

    address: str = ""
    """Where other nodes reach it, host:port; empty where none does."""


class CacheNode:
    """
    Holds blocks, and gives them back.

    Args:
        identity: Who it is.
        catalog: Empty; its limits are those of the stores.
        stores: The store of every tier that is switched on.
        clock: For pins, and for how long a full store is left alone.
        telemetry: Is told what happens.
        tasks: Owns all that runs in the background; it ends with them.
        is_parallel_read: Whether a read has several blocks, and both tiers, under way.
        read_bytes_max, write_bytes_max: Bytes of the blocks that all reads, and all writes,
            together have in memory.
        is_prefetch_on: Whether blocks are lifted ahead of their turn.
        pull_limits: Bounds of what it fetches from other nodes; None: the usual ones.
        open_peer: The way to those; None: by the client library.
        find_peers: Lists the nodes that take its sessions when it leaves.
    """

    def __init__(
        self,
        *,
        identity: NodeIdentity,
        catalog: Catalog,
        stores: Mapping[Tier, BlockStore],
        clock: Clock,
        telemetry: Telemetry,
        tasks: asyncio.TaskGroup,
        is_parallel_read: bool = True,
        read_bytes_max: int = MEMORY_BYTES_MAX,
        write_bytes_max: int = MEMORY_BYTES_MAX,
        is_prefetch_on: bool = True,
        pull_limits: PullLimits | None = None,
        open_peer: OpenPeer | None = None,
        find_peers: FindPeers = no_peers,
    ) -> None:
        self.identity = identity
        self.catalog = catalog
        self.calls_in_flight = 0
        """Reads and writes under way."""

        self._clock = clock
        self._telemetry = telemetry
        self._tasks = tasks
        self._is_prefetch_on = is_prefetch_on
        self._background: list[asyncio.Task[None]] = []
        self._measured: NodeMeasured | None = None
        self._measure_at_s = clock.now()
        self._stores = TierStores(catalog, stores, clock=clock, telemetry=telemetry)
        self._recovery = Recovery(catalog, stores, clock=clock, telemetry=telemetry)
        self._watch = StoreWatch(self._stores, self._recovery, telemetry)
        self._mover = TierMover(catalog, self._stores, telemetry)
        self._writer = BlockWriter(
            catalog,
            self._stores,
            tasks=tasks,
            pool=BufferPool(write_bytes_max),
            telemetry=telemetry,
        )
        self._hits = HitCounts()
        self._reader = BlockReader(
            catalog,
            self._stores,
            tasks=tasks,
            pool=BufferPool(read_bytes_max),
            is_parallel=is_parallel_read,
            hits=self._hits,
            telemetry=telemetry,
        )
        self._direct_reader = DirectReader(
            catalog, self._stores, hits=self._hits, telemetry=telemetry
        )
        self._direct_writer = DirectWriter(
            catalog, self._stores, clock=clock, tasks=tasks, telemetry=telemetry
        )
        self._loads = NodeLoads(catalog, clock)
        limits = pull_limits or PullLimits()
        open_peer = open_peer or PeerNodes(clock, limits.stall_s, telemetry).open
        self.pulls = self._new_pulls(limits, open_peer)
        """What it fetches from other nodes."""

        self.drain = self._new_drain(open_peer, find_peers)
        """What it hands to other nodes, once it is to leave."""

    async def start(self) -> None:
        """Find the blocks that the stores hold."""
        await self._recovery.restore_all()
        self._stores.work.set()

    def work_in_background(self) -> None:
        """Begin to watch the stores and to move blocks, until `stop`."""
        self._background = [
            self._tasks.create_task(forever)
            for forever in (self._mover.run(), self._watch.run(), self._tick_for_ever())
        ]

    def stop(self) -> None:
        """End the background work; what is stored stays."""
        self.pulls.stop()
        self.drain.stop()
        for task in self._background:
            task.cancel()

    @property
    def uncached_tokens(self) -> int:
        """Prompt tokens of turns under way that the engine beside the node has to compute."""
        return self._loads.tokens

    def match(self, query: MatchQuery) -> Matched:
        """Count the leading blocks of a prompt that are held, by tier, and those to come."""
        self._loads.ask(query.session_id, query.namespace_id, query.keys)
        by_tier = self.catalog.match(query.namespace_id, query.keys)
        arriving = self.pulls.arriving_blocks(query.namespace_id, query.keys, by_tier.total)
        return Matched(by_tier, arriving)

    def lineage(self, query: LineageQuery) -> Lineage:
        """Give the keys of the prefix that ends in a block; none where it is not held."""
        keys = self.catalog.lineage(query.namespace_id, query.tip_key)
        return Lineage(self.catalog.spec_of(query.namespace_id) if keys else None, keys)

    async def read(self, query: ReadQuery) -> AsyncGenerator[ReadStep, None]:
        """
        Give the longest held run of blocks in order, and last the reason why it ends.

        Trouble with a store is such a reason, and never an error (I5).
        """
        self._loads.ask(query.session_id, query.namespace_id, query.keys, query.first_block)
        with self._call():
            async with aclosing(self._reader.read(query)) as steps:
                async for step in steps:
                    yield step

    async def write(
        self, start: WriteStart, chunks: AsyncIterator[BlockChunk]
    ) -> list[WriteStatus]:
        """
        Store blocks and return what became of each, in the order of their headers.

        Raises:
            BadInputError: If a block has the wrong size, or the chunks make no sense.
        """
        with self._call():
            statuses = await self._writer.write(start, chunks)
        self._loads.compute(start.session_id, len(statuses))
        return statuses

    def locate(self, query: LocateQuery) -> Located:
        """Say where the longest held run of blocks lies, to a caller who reads it directly."""
        self._loads.ask(query.session_id, query.namespace_id, query.keys, query.first_block)
        return self._direct_reader.locate(query)

    def reserve(self, query: ReserveQuery) -> Reservation:
        """
        Keep room for blocks that the caller writes directly.

        Raises:
            BadInputError: If the namespace is known with another size.
        """
        self._loads.compute(query.start.session_id, len(query.keys))
        return self._direct_writer.reserve(query)

    async def commit(self, reservation_id: str) -> list[WriteStatus]:
        """
        Hold the blocks of a reservation; return what became of each, in its order.

        Raises:
            ReservationOverError: If it was committed or given up, or its time is over.
        """
        with self._call():
            return await self._direct_writer.commit(reservation_id)

    async def abort(self, reservation_id: str) -> None:
        """Give a reservation up; one that is over, or being committed, is no matter."""
        with self._call():
            await self._direct_writer.abort(reservation_id)

    def prefetch(self, query: KeysQuery) -> int:
        """Have a prefix lifted from SSD to DRAM; return how many blocks are on their way."""
        if not self._is_prefetch_on:
            return 0
        queued = self.catalog.request_prefetch(query.namespace_id, query.keys)
        self._stores.work.set()
        return queued

    def prefetch_to(self, namespace_id: bytes, tip_key: bytes) -> int:
        """Have the prefix that ends in a block lifted, as `prefetch` does."""
        lineage = self.catalog.lineage(namespace_id, tip_key)
        return self.prefetch(KeysQuery(namespace_id, lineage))

    def end_turn(self, turn: EndedTurn) -> int:
        """
        Learn how a session's turn ended: it decides how long its blocks are kept, and up.

        Returns:
            Blocks that are on their way from SSD to DRAM because of it.
        """
        self._loads.end(turn.session_id)
        self.catalog.end_turn(turn, self._clock.now())
        return self._lift_due()

    def pin(self, query: PinQuery) -> Pinned:
        """Keep a prefix from eviction for a while."""
        return self.catalog.pin(query, pin_id=secrets.token_hex(8), now=self._clock.now())

    def unpin(self, pin_id: str) -> int:
        """End a pin; return how many blocks it kept."""
        released = self.catalog.unpin(pin_id)
        self._stores.work.set()
        return released

    def drop(self, target: DropTarget) -> int:
        """Forget what is named; return how many blocks that were."""
        dropped = self.catalog.drop(target)
        self._stores.work.set()
        return dropped

    def usage(self) -> tuple[TierUsage, ...]:
        """Bytes and blocks of DRAM and SSD."""
        return self.catalog.usage()

    def describe(self) -> NodeDescription:
        """Describe the node: its tiers, namespaces and troubles."""
        return NodeDescription(
            node_id=self.identity.node_id,
            epoch=self.identity.epoch,
            tiers=self.catalog.usage(),
            namespaces=self.catalog.namespaces(),
            pins=self.catalog.pin_count,
            version=self.identity.version,
            is_draining=self.drain.is_draining,
        )

    async def look_at_stores(self) -> None:
        """Look at every store now, not at the next second."""
        await self._watch.look()

    async def settle(self) -> None:
        """Do all background work that can be done now."""
        await self._mover.work()

    def tick(self) -> None:
        """Do what is due every second: end what is over, lift what is expected, show the gauges."""
        self.catalog.expire_pins(self._clock.now())
        self._direct_writer.expire()
        self._lift_due()
        self._stores.work.set()
        show_usage(self._telemetry.meters, self.catalog.usage())
        show_uncached(self._telemetry.meters, self.uncached_tokens)
        show_hit_ratio(self._telemetry.meters, self._hits.ratios())
        show_write_amplification(
            self._telemetry.meters, self._mover.moved_bytes, self.catalog.written_bytes
        )
        if self._clock.now() >= self._measure_at_s:
            self._measure_at_s = self._clock.now() + MEASURE_S
            self._measure()

    def _new_pulls(self, limits: PullLimits, open_peer: OpenPeer) -> Puller:
        return Puller(
            self.catalog,
            self._writer,
            open_peer=open_peer,
            own_addresses=frozenset({self.identity.address}),
            limits=limits,
            clock=self._clock,
            tasks=self._tasks,
            telemetry=self._telemetry,
        )

    def _new_drain(self, open_peer: OpenPeer, find_peers: FindPeers) -> Drain:
        return Drain(
            self.catalog,
            own_address=self.identity.address,
            open_peer=open_peer,
            find_peers=find_peers,
            is_busy=lambda: self.calls_in_flight > 0 or self._loads.turns > 0,
            has_turn=self._loads.has_turn,
            clock=self._clock,
            tasks=self._tasks,
            telemetry=self._telemetry,
        )

    def _lift_due(self) -> int:
        if not self._is_prefetch_on:
            return 0
        queued = self.catalog.lift_due(self._clock.now())
        self._stores.work.set()
        return queued

    def _measure(self) -> None:
        now = measured(self.catalog.usage(), self._hits.ratios())
        if now != self._measured:
            self._measured = now
            self._telemetry.emit(now)

    async def _tick_for_ever(self) -> None:
        while True:
            self.tick()
            await asyncio.sleep(TICK_S)

    @contextmanager
    def _call(self) -> Iterator[None]:
        self.calls_in_flight += 1
        try:
            yield
        finally:
            self.calls_in_flight -= 1
