"""Pulls: prefixes that the node fetches from other nodes, for callers and for routers."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace

from cachenode.block_writer import BlockWriter
from cachenode.buffer_pool import BufferPool
from cachenode.catalog import Catalog
from cachenode.lineages import Tip
from cachenode.move_events import PullEnded, show_pulls
from cachenode.peer_nodes import OpenPeer, PeerNode
from cachenode.pull_runs import PullRun, PullRuns
from cachenode.pull_transfer import PullTransfer
from hearthkv.client.deadline import Deadline
from hearthkv.core.address import check_host_port
from hearthkv.core.block_io import WriteStart
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.clock import Clock
from hearthkv.core.errors import BadRequestError, BlockSizeError, PeerError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.pulls import LineageQuery, PullEnd, PullProgress, PullQuery
from hearthkv.core.routing import PullOrder
from hearthkv.telemetry import Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class PullLimits:
    """What bounds the pulls of a node (I3)."""

    runs_max: int = 8
    """Pulls under way at once."""

    memory_bytes: int = 128 * 1024 * 1024
    """Bytes of blocks that all of them have in memory."""

    stall_s: float = 2.0
    """Seconds without a byte after which a source is given up."""

    pull_s: float = 60.0
    """Seconds after which a pull ends, however far it has come."""


class Puller:
    """
    Fetches prefixes from other nodes.

    Args:
        catalog: Knows what is held already.
        writer: Stores what comes.
        open_peer: The way to other nodes.
        own_addresses: The node's own, which it never pulls from.
        limits: Bounds of all pulls together.
        clock: For deadlines.
        tasks: Owns the pulls.
        telemetry: Is told how they ended.
    """

    def __init__(
        self,
        catalog: Catalog,
        writer: BlockWriter,
        *,
        open_peer: OpenPeer,
        own_addresses: frozenset[str],
        limits: PullLimits,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        telemetry: Telemetry,
    ) -> None:
        self._catalog = catalog
        self._writer = writer
        self._open_peer = open_peer
        self._own_addresses = own_addresses
        self._limits = limits
        self._clock = clock
        self._tasks = tasks
        self._telemetry = telemetry
        self._pool = BufferPool(limits.memory_bytes)
        self._runs = PullRuns(limits.runs_max)
        self._work: dict[PullRun, asyncio.Task[None]] = {}
        self._news: dict[PullRun, asyncio.Event] = {}
        """Set, and replaced, when there is news of a pull; gone when it is over."""

        self._is_stopped = False

    @property
    def in_flight(self) -> int:
        """Pulls under way."""
        return len(self._runs)

    def arriving_blocks(self, namespace_id: bytes, keys: PackedKeys, held_blocks: int) -> int:
        """How many leading blocks of a prompt are held or on their way."""
        return self._runs.arriving_blocks(namespace_id, keys, held_blocks)

    def order(self, order: PullOrder) -> None:
        """Follow a router's order in the background; trouble with it is counted, no more."""
        query = PullQuery(
            order.namespace_id,
            PackedKeys(b""),
            order.tip_key,
            order.source_address,
            order.session_id,
        )
        try:
            check_host_port(order.source_address)
        except BadRequestError:
            self._count(query, PullEnd.UNAVAILABLE, 0, 0)
            return
        if self._is_held(query) or order.source_address in self._own_addresses:
            return
        run = self._runs.joinable(query)
        if run is None:
            self._begin(query, blocks=order.blocks, is_ordered=True)
        else:
            run.is_ordered = True

    async def pull(self, query: PullQuery) -> AsyncGenerator[PullProgress, None]:
        """
        Fetch a prefix, and tell how far that is until it ends.

        Who leaves early ends the pull only where nobody else waits and no router ordered it.
        """
        if self._is_held(query):
            held = len(query.keys) or len(self._catalog.lineage(query.namespace_id, query.tip_key))
            yield PullProgress(held, 0, PullEnd.COMPLETE)
            return
        if query.source_address in self._own_addresses:
            query = replace(query, source_address="")
        run = self._runs.joinable(query)
        if run is None and query.source_address:
            run = self._begin(query, blocks=0, is_ordered=False)
            if run is None:
                yield PullProgress(self._held_blocks(query), 0, PullEnd.BUSY)
                return
        async with aclosing(
            self._follow(query) if run is None else self._watch(run, query)
        ) as waiting:
            async for progress in waiting:
                yield progress

    def stop(self) -> None:
        """End all pulls, and begin no other one."""
        self._is_stopped = True
        for run in self._runs:
            self._end(run, PullEnd.UNAVAILABLE)

    # Those who wait

    async def _watch(self, run: PullRun, query: PullQuery) -> AsyncGenerator[PullProgress, None]:
        """Tell how far a pull is for one who asked for a prefix of it, or for all of it."""
        last: PullProgress | None = None
        with self._waiting_for(run):
            while True:
                blocks = len(query.keys) or run.blocks_to(query.namespace_id, query.tip_key) or 0
                held = self._held_blocks(query) if query.keys else min(run.held_blocks, blocks)
                progress = PullProgress(held, run.pulled_blocks)
                if blocks and self._is_held(query):
                    yield replace(progress, held_blocks=blocks, end=PullEnd.COMPLETE)
                    return
                if run.end is not None:
                    # It came whole, and is gone again: others needed the room.
                    is_gone = run.end is PullEnd.COMPLETE
                    yield replace(progress, end=PullEnd.NO_ROOM if is_gone else run.end)
                    return
                if progress != last:
                    last = progress
                    yield progress
                    continue
                await self._news_of(run)

    async def _follow(self, query: PullQuery) -> AsyncGenerator[PullProgress, None]:
        """Wait for what is under way from anywhere, and bring nothing."""
        pulled = 0
        while not self._is_held(query):
            held = self._held_blocks(query)
            run = self._bringer(query, held)
            if run is None:
                yield PullProgress(held, pulled, PullEnd.MISS)
                return
            yield PullProgress(held, pulled)
            with self._waiting_for(run):
                await self._news_of(run)
            pulled = max(pulled, run.pulled_blocks)
        yield PullProgress(self._held_blocks(query), pulled, PullEnd.COMPLETE)

    def _bringer(self, query: PullQuery, held: int) -> PullRun | None:
        """The pull that brings the next block of a prompt, as far as is known."""
        if not query.keys:
            return None
        run = self._runs.bringer(query.namespace_id, query.keys[held], None)
        if run is not None:
            return run
        for each in self._runs:
            if each.common_blocks(query.namespace_id, query.keys) > held:
                return each
        return None

    @contextmanager
    def _waiting_for(self, run: PullRun) -> Iterator[None]:
        run.waiting += 1
        try:
            yield
        finally:
            run.waiting -= 1
            if run in self._work and not run.waiting and not run.is_ordered:
                self._end(run, PullEnd.COMPLETE if run.is_whole else None)

    async def _news_of(self, run: PullRun) -> None:
        news = self._news.get(run)
        if news is not None:
            await news.wait()

    def _tell(self, run: PullRun) -> None:
        self._news[run].set()
        self._news[run] = asyncio.Event()

    # The work

    def _begin(self, query: PullQuery, *, blocks: int, is_ordered: bool) -> PullRun | None:
        """Begin a pull; None, and counted, where there is no place for it."""
        run = None
        if not self._is_stopped:
            run = self._runs.begin(query, blocks=blocks, is_ordered=is_ordered)
        if run is None:
            self._count(query, PullEnd.BUSY, 0, 0)
            return None
        self._news[run] = asyncio.Event()
        self._work[run] = self._tasks.create_task(self._run(run))
        show_pulls(self._telemetry.meters, self.in_flight)
        return run

    async def _run(self, run: PullRun) -> None:
        end = PullEnd.UNAVAILABLE
        with suppress(TimeoutError, PeerError, BlockSizeError):
            async with asyncio.timeout(self._limits.pull_s):
                end = await self._bring(run)
        if run in self._work:
            self._end(run, end)

    def _end(self, run: PullRun, end: PullEnd | None) -> None:
        """End a pull, and tell all who wait; one that is ended by others stops at once."""
        self._runs.end(run, end)
        task = self._work.pop(run)
        if task is not asyncio.current_task():
            task.cancel()
        self._news.pop(run).set()
        spec = run.query.spec or self._catalog.spec_of(run.query.namespace_id)
        size_bytes = run.pulled_blocks * (spec.block_bytes if spec else 0)
        self._count(run.query, end, run.pulled_blocks, size_bytes)

    def _count(self, query: PullQuery, end: PullEnd | None, blocks: int, size_bytes: int) -> None:
        self._telemetry.emit(PullEnded(query.source_address, end, blocks, size_bytes))
        show_pulls(self._telemetry.meters, self.in_flight)

    async def _bring(self, run: PullRun) -> PullEnd:
        """Bring what is not held of a prefix; return how that ended."""
        deadline = Deadline.after(self._clock.now(), self._limits.pull_s)
        async with self._open_peer(run.query.source_address) as source:
            known = await self._ask_keys(run.query, source)
            if known is None:
                return PullEnd.MISS
            spec, keys = known
            self._catalog.check_namespace(spec)
            self._runs.learn(run, keys)
            transfer = PullTransfer(
                source,
                keys,
                WriteStart(spec, run.query.session_id),
                writer=self._writer,
                pool=self._pool,
                tasks=self._tasks,
                on_stored=lambda blocks: self._note(run, blocks),
            )
            return await self._bring_rest(run, keys, transfer, deadline)

    async def _bring_rest(
        self, run: PullRun, keys: PackedKeys, transfer: PullTransfer, deadline: Deadline
    ) -> PullEnd:
        fetched_from = -1
        while True:
            self._note(run, 0)
            held = run.held_blocks
            if held == len(keys):
                return PullEnd.COMPLETE if self._is_held(run.query) else PullEnd.NO_ROOM
            bringer = self._runs.bringer(run.query.namespace_id, keys[held], run)
            if bringer is not None:
                with self._waiting_for(bringer):
                    await self._news_of(bringer)
                continue
            if held <= fetched_from:
                return PullEnd.NO_ROOM  # what came had to go again
            fetched_from = held
            end = await transfer.run(held, deadline)
            if end is not None:
                return end

    async def _ask_keys(
        self, query: PullQuery, source: PeerNode
    ) -> tuple[NamespaceSpec, PackedKeys] | None:
        """Return sizes and keys of a prefix; None where neither caller nor source knows them."""
        spec = query.spec or self._catalog.spec_of(query.namespace_id)
        if spec is not None and query.keys:
            return spec, query.keys
        lineage = await source.lineage(LineageQuery(query.namespace_id, query.tip_key))
        keys = query.keys or lineage.keys
        return None if lineage.spec is None or not keys else (lineage.spec, keys)

    def _note(self, run: PullRun, stored_blocks: int) -> None:
        """Learn that blocks were stored, and tell those who wait."""
        assert run.keys is not None
        run.pulled_blocks += stored_blocks
        run.held_blocks = self._catalog.held_blocks(run.query.namespace_id, run.keys)
        if run in self._news:
            self._tell(run)

    # What is held

    def _held_blocks(self, query: PullQuery) -> int:
        return self._catalog.held_blocks(query.namespace_id, query.keys)

    def _is_held(self, query: PullQuery) -> bool:
        """Whether a prefix is held whole; its session is known to own it then."""
        tip = Tip(query.namespace_id, query.tip_key)
        if not self._catalog.is_held(tip):
            return False
        if query.session_id is not None:
            self._catalog.note_owner(query.session_id, tip)
        return True
