"""
Where a prompt's prefix comes from and where it goes: the engine's memory, then the cache node.

In the engine's memory are the blocks of its pool, which are the heads of prompts, and the blocks
whose save is under way, which are their tails. The node fills the gap between them.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Self

import numpy as np

from hearthkv.client.deadline import Deadline
from hearthkv.client.kv import HearthKV
from hearthkv.client.outcome import Loaded, MissReason
from hearthkv.client.turn import Turn
from hearthkv.core.clock import Clock
from hearthkv.core.namespace import ModelNamespace
from hearthkv.core.routing import CacheHint
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import TierCounts
from hearthkv.demo.hbm_pool import HbmPool
from hearthkv.demo.kv_cache import KVCache
from hearthkv.demo.turn_saves import BATCH_BYTES, Save, TurnSaves
from hearthkv.telemetry import Telemetry

LOAD_S = 30.0
"""Seconds that loading from the node may take in all; what is missing then is computed."""

_GONE = frozenset({MissReason.NOT_HELD, MissReason.LOST, MissReason.CORRUPT})
"""What says that a node does not hold a block, though it said so before."""


@dataclass(frozen=True, slots=True)
class CachedPrefix:
    """What a turn found in the cache."""

    turn: Turn | None
    """None where the cache was left alone."""

    tokens: TierCounts
    """Prompt tokens that were laid into the KV cache, by the tier that they came from."""

    prompt_tokens: int
    """Length of the prompt that was asked for."""

    node_blocks: int
    """Leading blocks that the node holds, as far as the turn has learned."""

    last_save: Save | None
    """The session's save that was under way when the node was asked."""

    match_s: float
    """Seconds spent on finding out, before anything was read."""

    miss: str
    """Why the node brought no more, as the client names it; empty where it brought all that it
    held, or had nothing to bring."""


@dataclass(frozen=True, slots=True)
class _Brought:
    """What the node brought, in blocks, and how many it holds in all."""

    by_tier: TierCounts
    node_blocks: int
    miss: MissReason | None


@dataclass(frozen=True, slots=True)
class _AtHand:
    """What of a prompt is in the engine's memory: its first blocks, and some behind a gap."""

    head: list[memoryview]
    gap_end: int
    """Where the blocks go on that are here; the end of the prompt where they don't."""

    tail: list[memoryview]

    @classmethod
    def of(cls, payloads: Sequence[memoryview | None]) -> Self:
        """Split a prompt's blocks; None stands for one that is not here."""
        head = _leading(payloads)
        missing = sum(1 for _ in takewhile(lambda payload: payload is None, payloads[len(head) :]))
        gap_end = len(head) + missing
        return cls(head, gap_end, _leading(payloads[gap_end:]))


class PrefixSource:
    """
    Finds prefixes for one engine, and keeps what it computes. Serves one turn at a time.

    Args:
        kv: The client; None for an engine without a cache.
        node_address: The cache node beside the engine; None to let the router choose.
        batch_bytes: Bytes that are read, or handed over to be saved, at once. While one batch
            is laid into the KV cache the next one is read.
    """

    def __init__(
        self,
        kv: HearthKV | None,
        *,
        node_address: str | None,
        namespace: ModelNamespace,
        pool: HbmPool,
        clock: Clock,
        telemetry: Telemetry,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self._kv = kv
        self._node_address = node_address
        self._namespace = namespace
        self._block_size = namespace.block_size
        self._pool = pool
        self._clock = clock
        self._telemetry = telemetry
        self._batch_bytes = batch_bytes
        self._saves = TurnSaves(clock, telemetry, batch_bytes=batch_bytes)

    async def load(
        self, session_id: SessionId, prompt: Sequence[int], hint: CacheHint, cache: KVCache
    ) -> CachedPrefix:
        """
        Lay the longest cached prefix of a prompt into an empty KV cache.

        At least one token is left to compute: the answer starts from its logits.
        """
        if self._kv is None:
            return _nothing(prompt, 0.0, "")
        started_s = self._clock.now()
        last_save = self._saves.under_way(session_id)
        turn = await self._kv.begin_turn(
            session_id, self._namespace, prompt, cache_hint=hint, node=self._node_address
        )
        match_s = self._clock.now() - started_s
        if hint is CacheHint.BYPASS:
            return _nothing(prompt, match_s, _miss_name(turn.miss_reason))
        usable_blocks = (len(prompt) - 1) // self._block_size
        here = _AtHand.of([self._at_hand(key) for key in turn.keys.slice(0, usable_blocks)])
        await asyncio.to_thread(_lay, cache, self._block_size, 0, here.head)
        brought = await self._load_rest(turn, len(here.head), here.gap_end, cache)
        tail = here.tail if len(here.head) + brought.by_tier.total == here.gap_end else []
        await asyncio.to_thread(_lay, cache, self._block_size, here.gap_end, tail)
        tokens = TierCounts(
            (len(here.head) + brought.by_tier.hbm + len(tail)) * self._block_size,
            brought.by_tier.dram * self._block_size,
            brought.by_tier.ssd * self._block_size,
        )
        return CachedPrefix(
            turn=turn,
            tokens=tokens,
            prompt_tokens=len(prompt),
            node_blocks=brought.node_blocks,
            last_save=last_save,
            match_s=match_s,
            miss=_miss_name(brought.miss),
        )

    async def keep(self, prefix: CachedPrefix, tokens: Sequence[int], cache: KVCache) -> None:
        """
        Keep what a turn computed: in the pool at once, on the cache node in the background.

        Args:
            prefix: What `load` found.
            tokens: The tokens whose KV is in `cache`.
            cache: The turn's KV cache; not used after the call.
        """
        turn = prefix.turn
        if turn is None:
            return
        turn.extend(tokens[prefix.prompt_tokens :])
        blocks = len(tokens) // self._block_size
        keys = list(turn.keys.slice(0, blocks))
        pooled = min(blocks, self._pool.blocks_max)
        unsaved = range(min(prefix.node_blocks, blocks), blocks)
        wanted = {*range(pooled), *unsaved}
        here = {index: self._at_hand(keys[index]) for index in wanted}
        by_index = {index: payload for index, payload in here.items() if payload is not None}
        # Copies are made only of what is wanted and not at hand, and not on the event loop.
        lacking = sorted(wanted - by_index.keys())
        by_index |= await asyncio.to_thread(_export, cache, self._block_size, lacking)
        self._pool.keep(keys[:pooled], [by_index[index] for index in range(pooled)])
        self._telemetry.meters.set("engine_hbm_used_bytes", self._pool.used_bytes)
        unsaved_payloads = [by_index[index] for index in unsaved]
        self._saves.begin(turn, unsaved.start, unsaved_payloads, prefix.last_save)

    async def close(self) -> None:
        """Wait for the saves that are under way; those that take too long are given up."""
        await self._saves.close()

    def _at_hand(self, key: bytes) -> memoryview | None:
        """A block that is in the engine's memory."""
        pooled = self._pool.get(key)
        return self._saves.get(key) if pooled is None else pooled

    async def _load_rest(
        self, turn: Turn, first_block: int, gap_end: int, cache: KVCache
    ) -> _Brought:
        """Read the blocks that are not at hand, as far as the node holds or is getting them."""
        node_blocks = turn.matched.total
        end = min(turn.arriving_blocks, gap_end)
        if first_block >= end:
            miss = None if first_block == gap_end else turn.miss_reason
            return _Brought(TierCounts(), node_blocks, miss)
        loaded, miss = await self._load_batches(turn, first_block, end, cache)
        came_to = first_block + loaded.total
        node_blocks = came_to if miss in _GONE else max(node_blocks, came_to)
        return _Brought(loaded, node_blocks, miss)

    async def _load_batches(
        self, turn: Turn, first_block: int, end: int, cache: KVCache
    ) -> tuple[TierCounts, MissReason | None]:
        """
        Read blocks, at least one, batch by batch up to `end` or the first miss.

        Two buffers take turns, so that one is filled while the other is emptied.
        """
        batch_blocks = min(max(1, self._batch_bytes // turn.block_bytes), end - first_block)
        spare, busy = (np.empty(batch_blocks * turn.block_bytes, np.uint8).data for _ in range(2))
        deadline = Deadline.after(self._clock.now(), LOAD_S)
        by_tier, at = TierCounts(), first_block
        miss: MissReason | None = None
        laying: asyncio.Future[None] | None = None
        while at < end and miss is None:
            blocks = min(batch_blocks, end - at)
            loaded = await self._load_batch(turn, spare, at, blocks, deadline)
            if laying is not None:
                await laying
            payloads = _blocks_of(spare, loaded.blocks, turn)
            laying = asyncio.get_running_loop().run_in_executor(
                None, _lay, cache, self._block_size, at, payloads
            )
            by_tier, at, miss = by_tier + loaded.by_tier, at + loaded.blocks, loaded.miss
            spare, busy = busy, spare
        assert laying is not None  # There was a batch, for there was a block.
        await laying
        return by_tier, miss

    async def _load_batch(
        self, turn: Turn, buffer: memoryview, at: int, blocks: int, deadline: Deadline
    ) -> Loaded:
        left_s = deadline.left_s(self._clock.now())
        if left_s == 0:
            return Loaded(miss=MissReason.TIMEOUT)
        return await turn.load_into(buffer, at, blocks=blocks, deadline_s=left_s)


def _leading(payloads: Iterable[memoryview | None]) -> list[memoryview]:
    """The payloads before the first that is missing."""
    leading: list[memoryview] = []
    for payload in payloads:
        if payload is None:
            break
        leading.append(payload)
    return leading


def _lay(cache: KVCache, block_size: int, first_block: int, payloads: Sequence[memoryview]) -> None:
    for index, payload in enumerate(payloads, first_block):
        cache.import_block(index, block_size, payload)


def _export(cache: KVCache, block_size: int, indices: Iterable[int]) -> dict[int, memoryview]:
    return {index: cache.export_block(index, block_size) for index in indices}


def _blocks_of(buffer: memoryview, blocks: int, turn: Turn) -> list[memoryview]:
    size = turn.block_bytes
    return [buffer[index * size : (index + 1) * size] for index in range(blocks)]


def _nothing(prompt: Sequence[int], match_s: float, miss: str) -> CachedPrefix:
    return CachedPrefix(
        turn=None,
        tokens=TierCounts(),
        prompt_tokens=len(prompt),
        node_blocks=0,
        last_save=None,
        match_s=match_s,
        miss=miss,
    )


def _miss_name(miss: MissReason | None) -> str:
    return "" if miss is None else miss.value
