"""A `DirectStore` in memory, and a client that writes to it as one on the node's host would."""

import asyncio
from collections.abc import Sequence

from hearthkv.core.block_frame import FRAME_BYTES, encode_frame, frame_of
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.direct_path import BlockAddress, RedisAddress
from hearthkv.core.errors import BlockLostError, StoreError, StoreUnavailableError
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, payload_of

Name = tuple[bytes, bytes, int]


class DirectMemoryStore(MemoryStore):
    """The DRAM tier. A confirmation waits for as long as `gate` is closed, if there is one."""

    def __init__(self) -> None:
        super().__init__(Tier.DRAM)
        self.reserved: dict[Name, bytes] = {}
        self.gate: asyncio.Event | None = None
        self.is_confirming = asyncio.Event()
        self.loses_answers = False
        """Whether it confirms, and the answer never comes."""

    def empty(self) -> None:
        super().empty()
        self.reserved.clear()

    def client_writes(self, key: bytes, sequence: int, parent_key: bytes = b"") -> None:
        """Do what a client does that has room for a block of SPEC."""
        ref = BlockRef(SPEC.namespace_id, key, parent_key, Tier.DRAM, sequence, 0, SPEC.block_bytes)
        self.reserved[_name(ref)] = encode_frame(frame_of(SPEC, ref)) + payload_of(key)

    def locate(self, refs: Sequence[BlockRef]) -> list[BlockAddress | None]:
        return [RedisAddress(ref.key[0] % 2) for ref in refs]

    async def confirm(self, refs: Sequence[BlockRef]) -> list[StoreError | None]:
        self.is_confirming.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.trouble is not None:
            return [self.trouble] * len(refs)
        outcomes = [self._confirm(ref) for ref in refs]
        if self.loses_answers:
            return [StoreUnavailableError("the answer did not come")] * len(refs)
        return outcomes

    async def discard(self, refs: Sequence[BlockRef]) -> None:
        if self.trouble is not None:
            raise self.trouble
        for ref in refs:
            self.reserved.pop(_name(ref), None)

    def _confirm(self, ref: BlockRef) -> StoreError | None:
        stored = self.reserved.get(_name(ref))
        if stored is None or len(stored) != FRAME_BYTES + ref.size_bytes:
            return BlockLostError(f"no copy of block {ref.key.hex()} was written")
        self.stored[_name(ref)] = self.reserved.pop(_name(ref))
        return None


def _name(ref: BlockRef) -> Name:
    return ref.namespace_id, ref.key, ref.sequence
