"""
Loads a run of blocks: decides how much, reads stores directly, and the rest by stream. Not pure.

The three meet here and nowhere else: `load_gate` says how many blocks are worth it and for how
long, `direct_reader` brings what can be read from the node's stores, and what it does not bring
comes through the node, which then learns which of its copies is gone.
"""

import asyncio
import math
from dataclasses import dataclass

from hearthkv.client.arriving_load import ArrivingLoad
from hearthkv.client.attachments import Attachments
from hearthkv.client.deadline import Deadline
from hearthkv.client.direct_calls import is_stale
from hearthkv.client.direct_reader import DirectRead
from hearthkv.client.direct_stores import DirectStores
from hearthkv.client.events import BlocksLoaded, CorruptBlockDropped, LoadDecided
from hearthkv.client.load_gate import TierRun, decide, runs_of_counts, runs_of_tiers
from hearthkv.client.load_rates import LoadRates, ReadPath, ReadSample, Source
from hearthkv.client.load_run import LoadQuery, LoadRun
from hearthkv.client.node_client import NodeClient
from hearthkv.client.outcome import Loaded, MissReason, miss_of
from hearthkv.client.prefix_assembly import PrefixAssembly
from hearthkv.client.settings import ClientSettings
from hearthkv.core.block_io import DropBlocks, ReadEnd, ReadQuery
from hearthkv.core.direct_path import Located, LocateQuery
from hearthkv.core.errors import (
    PeerContractError,
    PeerError,
    PeerTimeoutError,
    PeerUnreachableError,
)
from hearthkv.core.tier import Tier
from hearthkv.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the blocks of a load lie, and the way there."""

    stores: DirectStores
    located: Located
    latency_s: float
    """What it took to learn that."""


class Loader:
    """
    The loads of one client.

    Args:
        attachments: The nodes whose stores it reaches.
        rates: What is known of reading and computing; learns what loads took.
        settings: Deadlines, and whether there is a gate.
        telemetry: Where its events go.
    """

    def __init__(
        self,
        attachments: Attachments,
        rates: LoadRates,
        settings: ClientSettings,
        telemetry: Telemetry,
    ) -> None:
        self._attachments = attachments
        self._rates = rates
        self._settings = settings
        self._telemetry = telemetry

    def note_prefill(self, namespace_id: bytes, tokens: int, seconds: float) -> None:
        """Learn how fast the engine computes."""
        self._rates.note_prefill(namespace_id, tokens, seconds)
        rate = self._rates.prefill_rate(namespace_id)
        if rate is not None:
            self._telemetry.meters.set("client_prefill_tokens_per_second", rate)

    async def load(self, node: NodeClient, query: LoadQuery) -> Loaded:
        """
        Load from a node what is worth it; whatever goes wrong is a miss with a reason (I5).

        Where blocks are on their way to the node, those are waited for, too.
        """
        if not query.wants_arrivals:
            return await self._load_held(node, query)
        load = ArrivingLoad(node, query, self._load_held, self._rates, self._settings)
        return await load.run()

    async def _load_held(self, node: NodeClient, query: LoadQuery) -> Loaded:
        deadline = Deadline.after(node.calls.clock.now(), query.limit_s)
        run = LoadRun(query)
        try:
            found = await self._find(node, query, deadline)
            tiers, limit_s = self._decide(node, run, found)
            async with asyncio.timeout(limit_s):
                await self._bring(node, run, found, tiers, deadline)
        except TimeoutError:
            run.miss = MissReason.RECOMPUTE
        except PeerError as error:
            run.miss = miss_of(error)
        return run.loaded

    async def _find(self, node: NodeClient, query: LoadQuery, deadline: Deadline) -> _Found | None:
        """Ask where the blocks lie; None where they have to come by stream."""
        started_s = node.calls.clock.now()
        for _ in range(2):  # the second time where the node was started again
            stores = await self._attachments.stores(node.address, deadline)
            if stores is None:
                return None
            where = LocateQuery(
                proof=stores.proof,
                namespace_id=query.spec.namespace_id,
                keys=query.keys,
                first_block=query.first_block,
                session_id=query.session_id,
            )
            try:
                located = await stores.node.locate(where, query.spec.block_bytes, deadline)
            except (PeerTimeoutError, PeerUnreachableError):
                raise
            except PeerError as error:
                if not is_stale(error):
                    self._attachments.refuse(stores, error)
                    return None
                self._attachments.forget(stores)
            else:
                return _Found(stores, located, node.calls.clock.now() - started_s)
        return None

    def _decide(
        self, node: NodeClient, run: LoadRun, found: _Found | None
    ) -> tuple[list[TierRun], float | None]:
        """Leave out what is not worth it; return where the blocks lie, and for how long to try."""
        path = ReadPath.STREAM if found is None else ReadPath.DIRECT
        source, tiers = Source(node.address, path), _tiers(run.query, found)
        if not tiers or not self._settings.load_gate:
            return tiers, None
        blocks = sum(each.blocks for each in tiers)
        decision = decide(self._rates, source, run.query.spec, tiers, node.calls.clock.now())
        self._telemetry.emit(LoadDecided(source, blocks, decision))
        if decision.blocks < blocks:
            run.cut(decision.blocks)
        return tiers, None if math.isinf(decision.limit_s) else decision.limit_s

    async def _bring(
        self,
        node: NodeClient,
        run: LoadRun,
        found: _Found | None,
        tiers: list[TierRun],
        deadline: Deadline,
    ) -> None:
        first_tier = tiers[0].tier if tiers else Tier.DRAM
        if found is not None and run.wanted:
            await self._read_stores(node, run, found, first_tier, deadline)
        if not run.is_over:
            await self._read_stream(node, run, first_tier, deadline)

    async def _read_stores(
        self, node: NodeClient, run: LoadRun, found: _Found, tier: Tier, deadline: Deadline
    ) -> None:
        clock, blocks = node.calls.clock, found.located.blocks[: run.wanted]
        try:
            read = DirectRead(found.stores, blocks, run.query.view, clock)
        except PeerContractError as error:
            self._attachments.refuse(found.stores, error)
            return
        started_s = clock.now()
        try:
            listener = None if run.query.on_progress is None else run.tell
            await read.run(deadline, self._settings.stall_s, listener)
        finally:
            sample = run.count(
                ReadPath.DIRECT,
                read.prefix.by_tier,
                tier,
                latency_s=found.latency_s,
                transfer_s=clock.now() - started_s,
            )
            self._learn(node, ReadPath.DIRECT, read.prefix.blocks, sample)
        if read.trouble is not None:
            self._attachments.refuse(found.stores, read.trouble)
        if run.is_over:
            return
        if read.prefix.is_complete and found.located.end is ReadEnd.MISS:
            run.miss = MissReason.NOT_HELD
        elif read.is_late:
            run.miss = MissReason.TIMEOUT

    async def _read_stream(
        self, node: NodeClient, run: LoadRun, tier: Tier, deadline: Deadline
    ) -> None:
        query, clock, at = run.query, node.calls.clock, run.blocks
        spec, keys = query.spec, query.keys.slice(at, run.wanted)
        assembly = PrefixAssembly(
            query.view[at * spec.block_bytes :],
            keys,
            namespace_id=spec.namespace_id,
            block_bytes=spec.block_bytes,
            on_progress=lambda blocks: run.tell(at + blocks),
        )
        read = ReadQuery(spec.namespace_id, keys, query.first_block + at, query.session_id)
        started_s = clock.now()
        try:
            await node.read(read, assembly, deadline)
            run.miss = assembly.miss
        finally:
            # The way to the first bytes counts as if it were theirs.
            sample = run.count(
                ReadPath.STREAM,
                assembly.by_tier,
                tier,
                latency_s=0.0,
                transfer_s=clock.now() - started_s,
            )
            self._learn(node, ReadPath.STREAM, assembly.blocks, sample)
        if run.miss is MissReason.CORRUPT:
            await _drop_corrupt(node, run)

    def _learn(self, node: NodeClient, path: ReadPath, blocks: int, sample: ReadSample) -> None:
        """Take note of what a part of a load took."""
        source = Source(node.address, path)
        size_bytes = sum(sample.size_bytes.values()) if blocks else 0
        self._telemetry.emit(
            BlocksLoaded(node.address, path, blocks, size_bytes, sample.transfer_s)
        )
        self._rates.note_read(source, sample, node.calls.clock.now())
        known = self._rates.source(source)
        for tier, rate in known.by_tier.items() if known else ():
            self._telemetry.meters.set(
                "client_read_bytes_per_second", rate, path=path.value, tier=tier.name.lower()
            )


def _tiers(query: LoadQuery, found: _Found | None) -> list[TierRun]:
    """Where the blocks lie, as far as that is known."""
    located = found.located.blocks if found is not None else ()
    tiers = runs_of_tiers(each.ref.tier for each in located)
    if found is not None and found.located.end is ReadEnd.MISS:
        return tiers
    at = len(located)
    return tiers + runs_of_counts(query.matched, query.first_block + at, len(query.keys) - at)


async def _drop_corrupt(node: NodeClient, run: LoadRun) -> None:
    """Have a damaged block forgotten; else the node would go on to say that it has it."""
    query, block = run.query, run.blocks
    node.calls.telemetry.emit(CorruptBlockDropped(node.address, query.first_block + block))
    try:
        await node.drop(DropBlocks(query.spec.namespace_id, query.keys.slice(block, block + 1)))
    except PeerError:
        return  # the frame of the call took note; the block stays a miss
