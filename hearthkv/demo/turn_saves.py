"""Saves the blocks of ended turns to the cache node: behind the answers, and in order."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TypeAlias

from hearthkv.client.turn import Turn
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.clock import Clock
from hearthkv.core.session_id import SessionId
from hearthkv.demo.engine_events import BlocksSaved
from hearthkv.telemetry import Telemetry

MIB = 1024 * 1024

BATCH_BYTES = 32 * MIB
"""Bytes handed to the client at once. It copies them, so a prompt is never there twice."""

WAITING_BYTES_MAX = 1024 * MIB
"""Bytes that all saves may hold; a save above it is given up, unless it is the only one."""

CLOSE_S = 5.0
"""How long the end of the process waits for saves."""


Save: TypeAlias = asyncio.Task[PackedKeys]
"""A save that is under way, or over: the leading blocks that the node holds then."""


class TurnSaves:
    """
    The saves that are under way. Saves of one session follow each other.

    A node takes a block only behind its parent, and a turn may begin while its session's last
    save goes on: then what the node said to hold is not yet all. So a turn takes note of the
    save that is under way before it asks, and its own save starts where that one came to.
    Until a block is saved its payload is here, so a turn that comes early need not wait for it.
    """

    def __init__(
        self,
        clock: Clock,
        telemetry: Telemetry,
        *,
        batch_bytes: int = BATCH_BYTES,
        waiting_bytes_max: int = WAITING_BYTES_MAX,
        close_s: float = CLOSE_S,
    ) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._batch_bytes = batch_bytes
        self._waiting_bytes_max = waiting_bytes_max
        self._waiting_bytes = 0
        self._close_s = close_s
        self._tasks: set[Save] = set()
        self._last: dict[SessionId, Save] = {}
        self._payloads: dict[bytes, memoryview] = {}

    def under_way(self, session_id: SessionId) -> Save | None:
        """Return the save of this session that is under way, the last one of several."""
        return self._last.get(session_id)

    def get(self, key: bytes) -> memoryview | None:
        """Return the payload of a block whose save is under way; None where it is not here."""
        return self._payloads.get(key)

    def begin(
        self,
        turn: Turn,
        first_block: int,
        payloads: Sequence[memoryview],
        after: Save | None = None,
    ) -> None:
        """
        Save a turn's blocks in the background.

        Args:
            turn: Its keys cover the blocks; it must not change any more.
            first_block: Place of the first payload; the node holds the blocks before it.
            payloads: Must not change until they are saved.
            after: What was under way when the node was asked what it holds.
        """
        if not payloads:
            return
        size_bytes = len(payloads) * turn.block_bytes
        if self._tasks and self._waiting_bytes + size_bytes > self._waiting_bytes_max:
            self._telemetry.emit(BlocksSaved(turn.session_id, 0, len(payloads), 0.0))
            return
        session_id = turn.session_id
        task = asyncio.get_running_loop().create_task(
            self._save(turn, first_block, payloads, after), name=f"save of {session_id}"
        )
        end = first_block + len(payloads)
        by_key = dict(zip(turn.keys.slice(first_block, end), payloads, strict=True))
        self._waiting_bytes += size_bytes
        self._payloads |= by_key
        self._tasks.add(task)
        self._last[session_id] = task
        task.add_done_callback(lambda done: self._forget(session_id, done, by_key))

    async def close(self) -> None:
        """Wait for the saves that are under way, `close_s` at most, and give up the others."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._close_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _save(
        self,
        turn: Turn,
        first_block: int,
        payloads: Sequence[memoryview],
        after: Save | None,
    ) -> PackedKeys:
        end = first_block + len(payloads)
        if after is not None:
            await asyncio.wait([after])
        started_s = self._clock.now()
        start = max(first_block, _reached(turn, after, end))
        saved = await self._save_run(turn, start, payloads[start - first_block :])
        self._telemetry.emit(
            BlocksSaved(turn.session_id, saved, end - start, self._clock.now() - started_s)
        )
        return turn.keys.slice(0, start + saved)

    async def _save_run(self, turn: Turn, start: int, payloads: Sequence[memoryview]) -> int:
        """Save blocks batch by batch, up to the first that is refused; return how many were."""
        batch_blocks = max(1, self._batch_bytes // turn.block_bytes)
        saved = 0
        for offset in range(0, len(payloads), batch_blocks):
            batch = payloads[offset : offset + batch_blocks]
            turn.save(start + offset, batch)
            saved = (await turn.finish()).saved_blocks
            if saved < offset + len(batch):
                break
        return saved

    def _forget(
        self, session_id: SessionId, done: Save, by_key: Mapping[bytes, memoryview]
    ) -> None:
        for key, payload in by_key.items():
            self._waiting_bytes -= payload.nbytes
            if self._payloads.get(key) is payload:  # and not that of a later save
                del self._payloads[key]
        self._tasks.discard(done)
        if self._last.get(session_id) is done:
            del self._last[session_id]


def _reached(turn: Turn, save: Save | None, end: int) -> int:
    """Return how many of a turn's first `end` blocks lie on the node since an earlier save."""
    if save is None or save.cancelled():
        return 0
    pairs = zip(save.result(), turn.keys, strict=False)
    return min(end, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)))
