"""
Where blocks lie on: a store that outlives the processes that use it, and may be in trouble.

What a process had under way when it was killed has happened or not, block by block, as chance
has it. Nothing else that was stored is lost, unless the whole store is emptied.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence

from cachenode.store import CopyRead, CopyWrite, ScanPart, StoreCheck
from hearthkv.core.block_frame import FRAME_BYTES
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.direct_path import BlockAddress
from hearthkv.core.errors import StoreError, StoreUnavailableError
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore
from tests.scenario.sim.machines import Process
from tests.scenario.sim.trace import Trace

LATENCY_S = {Tier.DRAM: (0.0001, 0.001), Tier.SSD: (0.0005, 0.006)}
DEADLINE_S = 0.5
"""What a store that is in trouble takes to say so."""


class Disk:
    """The store of one tier of one machine."""

    def __init__(self, name: str, tier: Tier, limit_bytes: int, trace: Trace) -> None:
        self.name = name
        self.tier = tier
        self.limit_bytes = limit_bytes
        self.content = MemoryStore(tier)
        self.contents = 1
        """Grows each time that it is emptied."""

        self._trace = trace

    def put(self, write: CopyWrite) -> StoreError | None:
        """Store a copy; a node must never have it hold more than it may (I3)."""
        outcome = self.content.put_one(write)
        used_bytes = self.content.used_bytes
        self._trace.check(
            used_bytes <= self.limit_bytes,
            "I3",
            f"{self.name} has {used_bytes} bytes, at most {self.limit_bytes} are allowed",
        )
        return outcome

    def empty(self) -> None:
        self.content.empty()
        self.contents += 1

    def fail(self) -> None:
        self.content.trouble = StoreUnavailableError(f"{self.name} does not answer")

    def heal(self) -> None:
        self.content.heal()
        self.content.is_full = False

    def damage(self, chance: random.Random) -> bool:
        """Flip a bit of some payload or frame; return whether there was any."""
        if not self.content.stored:
            return False
        name = chance.choice(list(self.content.stored))
        stored = bytearray(self.content.stored[name])
        # Frames are small against the payloads of life, but not against those of a simulation.
        first = FRAME_BYTES if chance.random() < 0.8 else 0
        stored[chance.randrange(first, len(stored))] ^= 1 << chance.randrange(8)
        self.content.stored[name] = bytes(stored)
        return True


class SimStore:
    """A disk, as one process has it open. One of the `BlockStore`s."""

    def __init__(self, disk: Disk, process: Process, chance: random.Random) -> None:
        self._disk = disk
        self._process = process
        self._chance = chance
        self._seen_contents = 0
        self._under_way: dict[int, Sequence[CopyWrite]] = {}
        self._puts = 0
        process.on_kill.append(self._die)

    @property
    def tier(self) -> Tier:
        return self._disk.tier

    async def put(self, writes: Sequence[CopyWrite]) -> list[StoreError | None]:
        self._puts += 1
        number = self._puts
        self._under_way[number] = writes
        try:
            await self._take_time()
            return [self._disk.put(write) for write in writes]
        finally:
            del self._under_way[number]

    async def get(self, reads: Sequence[CopyRead]) -> list[StoreError | None]:
        await self._take_time()
        return [self._disk.content.get_one(read) for read in reads]

    async def erase(self, refs: Sequence[BlockRef]) -> None:
        await self._take_time()
        await self._disk.content.erase(refs)

    async def scan(self) -> AsyncIterator[ScanPart]:
        await self._take_time()
        async for part in self._disk.content.scan():
            yield part

    async def check(self) -> StoreCheck:
        await self._take_time()
        if self._disk.content.trouble is not None:
            return StoreCheck(trouble=str(self._disk.content.trouble), is_same=False)
        is_same = self._seen_contents == self._disk.contents
        self._seen_contents = self._disk.contents
        return StoreCheck(trouble="", is_same=is_same)

    def locate(self, refs: Sequence[BlockRef]) -> Sequence[BlockAddress | None]:
        return [None] * len(refs)

    async def close(self) -> None:
        """There is nothing to let go of."""

    async def _take_time(self) -> None:
        self._see_that_it_lives()
        least, most = LATENCY_S[self.tier]
        is_in_trouble = self._disk.content.trouble is not None
        await asyncio.sleep(DEADLINE_S if is_in_trouble else self._chance.uniform(least, most))
        self._see_that_it_lives()

    def _see_that_it_lives(self) -> None:
        if not self._process.is_alive:
            raise asyncio.CancelledError

    def _die(self) -> None:
        for writes in self._under_way.values():
            for write in writes:
                if self._chance.random() < 0.5:
                    self._disk.put(write)
