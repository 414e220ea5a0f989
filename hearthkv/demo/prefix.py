"""Where a prompt's prefix comes from and where it goes: the engine's pool, then the cache node."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hearthkv.client.kv import HearthKV
from hearthkv.client.outcome import MissReason
from hearthkv.client.turn import Turn
from hearthkv.core.clock import Clock
from hearthkv.core.namespace import ModelNamespace
from hearthkv.core.routing import CacheHint
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import TierCounts
from hearthkv.demo.engine_events import BlocksSaved
from hearthkv.demo.hbm_pool import HbmPool
from hearthkv.demo.kv_cache import KVCache
from hearthkv.telemetry import Telemetry

SAVE_WAIT_S = 1.0
"""How long a turn waits for the save of its session's last turn: it wants those very blocks."""


@dataclass(frozen=True, slots=True)
class CachedPrefix:
    """What a turn found in the cache."""

    turn: Turn | None
    """None where the cache was left alone."""

    blocks: int
    """Leading blocks that were laid into the KV cache."""

    tokens: TierCounts
    """Prompt tokens of those blocks, by the tier that they came from."""

    prompt_tokens: int
    """Length of the prompt that was asked for."""

    match_s: float
    """Seconds spent on finding out, before anything was read."""

    miss: str
    """Why no more was found, as the client names it; empty where all was."""


class PrefixSource:
    """
    Finds prefixes for one engine, and keeps what it computes.

    Args:
        kv: The client; None for an engine without a cache.
        node_address: The cache node beside the engine; None to let the router choose.
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
    ) -> None:
        self._kv = kv
        self._node_address = node_address
        self._namespace = namespace
        self._block_size = namespace.block_size
        self._pool = pool
        self._clock = clock
        self._telemetry = telemetry
        self._saves: dict[SessionId, asyncio.Task[None]] = {}

    async def load(
        self, session_id: SessionId, prompt: Sequence[int], hint: CacheHint, cache: KVCache
    ) -> CachedPrefix:
        """
        Lay the longest cached prefix of a prompt into an empty KV cache.

        At least one token is left to compute: the answer starts from its logits.
        """
        if self._kv is None:
            return CachedPrefix(None, 0, TierCounts(), len(prompt), 0.0, "")
        started_s = self._clock.now()
        if hint is not CacheHint.BYPASS:
            await self._last_save(session_id)
        turn = await self._kv.begin_turn(
            session_id, self._namespace, prompt, cache_hint=hint, node=self._node_address
        )
        matched_s = self._clock.now() - started_s
        if hint is CacheHint.BYPASS:
            miss = _miss_name(turn.miss_reason)
            return CachedPrefix(None, 0, TierCounts(), len(prompt), matched_s, miss)
        usable_blocks = (len(prompt) - 1) // self._block_size
        held = self._pool.prefix(turn.keys.slice(0, usable_blocks))
        for index, payload in enumerate(held):
            cache.import_block(index, self._block_size, payload)
        loaded, miss = await self._load_rest(turn, len(held), usable_blocks, cache)
        tokens = TierCounts(
            (len(held) + loaded.hbm) * self._block_size,
            loaded.dram * self._block_size,
            loaded.ssd * self._block_size,
        )
        blocks = len(held) + loaded.total
        return CachedPrefix(turn, blocks, tokens, len(prompt), matched_s, miss)

    def keep(self, prefix: CachedPrefix, tokens: Sequence[int], cache: KVCache) -> None:
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
        payloads = [cache.export_block(index, self._block_size) for index in range(blocks)]
        self._pool.keep(list(turn.keys.slice(0, blocks)), payloads)
        self._telemetry.meters.set("engine_hbm_used_bytes", self._pool.used_bytes)
        turn.save(prefix.blocks, payloads[prefix.blocks :])
        task = asyncio.get_running_loop().create_task(
            self._finish(turn, blocks - prefix.blocks), name=f"save of {turn.session_id}"
        )
        self._saves[turn.session_id] = task
        task.add_done_callback(lambda done: self._forget_save(turn.session_id, done))

    async def close(self) -> None:
        """Wait for the saves that are under way."""
        if self._saves:
            await asyncio.wait(self._saves.values())

    async def _load_rest(
        self, turn: Turn, first_block: int, usable_blocks: int, cache: KVCache
    ) -> tuple[TierCounts, str]:
        """Read the blocks that the pool lacks and the node says to hold."""
        wanted = min(turn.matched.total, usable_blocks) - first_block
        if wanted <= 0:
            is_all = first_block == usable_blocks
            return TierCounts(), "" if is_all else _miss_name(turn.miss_reason)
        block_bytes = self._namespace.block_bytes
        buffer = np.empty(wanted * block_bytes, np.uint8).data
        loaded = await turn.load_into(buffer, first_block, blocks=wanted)
        for index in range(loaded.blocks):
            payload = buffer[index * block_bytes : (index + 1) * block_bytes]
            cache.import_block(first_block + index, self._block_size, payload)
        return loaded.by_tier, _miss_name(loaded.miss)

    async def _last_save(self, session_id: SessionId) -> None:
        task = self._saves.get(session_id)
        if task is not None:
            await asyncio.wait([task], timeout=SAVE_WAIT_S)

    async def _finish(self, turn: Turn, offered_blocks: int) -> None:
        started_s = self._clock.now()
        finished = await turn.finish()
        self._telemetry.emit(
            BlocksSaved(
                session=turn.session_id,
                saved=finished.saved_blocks,
                offered=offered_blocks,
                seconds=self._clock.now() - started_s,
            )
        )

    def _forget_save(self, session_id: SessionId, done: asyncio.Task[None]) -> None:
        if self._saves.get(session_id) is done:
            del self._saves[session_id]


def _miss_name(miss: MissReason | None) -> str:
    return "" if miss is None else miss.value
