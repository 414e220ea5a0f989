"""
Load on one node: `python -m tests.soak.load ADDRESS WORKER PATH SECONDS`, one process a worker.

A worker plays sessions that grow, branch and end; it checks every byte that it loads against what
belongs there, and prints one line of JSON at its end.
"""

import asyncio
import json
import random
import sys
from dataclasses import dataclass

import numpy as np

from hearthkv.client.kv import HearthKV, connect
from hearthkv.client.settings import ClientSettings
from hearthkv.core.clock import Clock, SystemClock
from hearthkv.core.namespace import NamespaceSpec

SPEC = NamespaceSpec(b"soak" * 4, 16, 256 * 1024)
PROMPT_BLOCKS_MAX = 48
SESSIONS = 12
GROWTH_BLOCKS = 4
VOCABULARY = 49_152


@dataclass
class Done:
    """What a worker has done so far."""

    turns: int = 0
    loaded_blocks: int = 0
    direct_blocks: int = 0
    saved_blocks: int = 0
    wrong_blocks: int = 0


def fill(payload: np.ndarray, key: bytes) -> None:
    """Write the bytes that belong to a key, unlike those of any other."""
    seed = np.uint64(int.from_bytes(key[:8], "little"))
    words = payload.view(np.uint64)
    np.add(np.arange(len(words), dtype=np.uint64), seed, out=words)


class Worker:
    """Plays its sessions one turn after the other."""

    def __init__(self, kv: HearthKV, address: str, number: int) -> None:
        self.done = Done()
        self._kv = kv
        self._address = address
        self._number = number
        self._chance = random.Random(number)
        self._prompts: list[np.ndarray] = [self._fresh() for _ in range(SESSIONS)]
        self._buffer = np.zeros((PROMPT_BLOCKS_MAX, SPEC.block_bytes), np.uint8)
        self._expected = np.zeros(SPEC.block_bytes, np.uint8)

    async def play(self, clock: Clock, seconds: float) -> Done:
        """Play until the time is over."""
        end_s = clock.now() + seconds
        while clock.now() < end_s:
            await self._turn(self._chance.randrange(SESSIONS))
        return self.done

    async def _turn(self, place: int) -> None:
        tokens = self._prompts[place]
        session = f"soak-{self._number}-{place}"
        turn = await self._kv.begin_turn(session, SPEC, tokens, node=self._address)
        loaded = await turn.load_into(self._buffer)
        blocks = len(tokens) // SPEC.block_size
        for block in range(blocks):
            fill(self._expected, turn.keys[block])
            if block >= loaded.blocks:
                self._buffer[block] = self._expected
            elif not np.array_equal(self._buffer[block], self._expected):
                self.done.wrong_blocks += 1
        turn.save(loaded.blocks, list(self._buffer[loaded.blocks : blocks]))
        finished = await turn.finish()
        self.done.turns += 1
        self.done.loaded_blocks += loaded.blocks
        self.done.direct_blocks += loaded.direct_blocks
        self.done.saved_blocks += finished.saved_blocks
        self._prompts[place] = self._grown(tokens)

    def _grown(self, tokens: np.ndarray) -> np.ndarray:
        """The next turn's prompt; where it gets too long, another session begins."""
        if len(tokens) + GROWTH_BLOCKS * SPEC.block_size > PROMPT_BLOCKS_MAX * SPEC.block_size:
            return self._fresh()
        return np.concatenate([tokens, self._drawn(GROWTH_BLOCKS)])

    def _fresh(self) -> np.ndarray:
        system = np.arange(2 * SPEC.block_size, dtype=np.uint32)  # which all sessions share
        return np.concatenate([system, self._drawn(GROWTH_BLOCKS)])

    def _drawn(self, blocks: int) -> np.ndarray:
        count = blocks * SPEC.block_size
        drawn = [self._chance.randrange(VOCABULARY) for _ in range(count)]
        return np.array(drawn, dtype=np.uint32)


async def main(address: str, number: int, path: str, seconds: float) -> Done:
    """Run one worker."""
    settings = ClientSettings(
        direct_path=path == "direct", load_gate=False, finish_s=30, save_s=30, match_s=10
    )
    async with connect(settings=settings) as kv:
        return await Worker(kv, address, number).play(SystemClock(), seconds)


if __name__ == "__main__":
    done = asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])))
    print(json.dumps(vars(done)))
