"""
The engine's own tier: blocks that stay in its memory between requests. Pure.

The reference engine computes on the CPU, so its "HBM" is a bounded pool in its process. Every
block that a turn makes is also saved to the cache node at the end of that turn, so a block that
leaves the pool is dropped, not moved: the tier below has it already. That is the price of
surviving an engine's restart, and it keeps the pool free of anything that waits for I/O.
"""

from collections import OrderedDict

from hearthkv.core.errors import LayoutMismatchError


class HbmPool:
    """
    Blocks by key, least recently used first.

    Above `offload_threshold` of the limit the coldest blocks leave. A prefix is touched from
    its tail to its head, so a head is always warmer than its tail and tails leave first (I2).

    Invariant: `used_bytes == len(pool) * block_bytes <= limit_bytes * offload_threshold`.
    """

    def __init__(self, limit_bytes: int, block_bytes: int, offload_threshold: float) -> None:
        self.block_bytes = block_bytes
        self.limit_bytes = limit_bytes
        self.blocks_max = int(limit_bytes * offload_threshold) // block_bytes
        """How many blocks stay when a prompt was kept."""
        self._payloads: OrderedDict[bytes, memoryview] = OrderedDict()

    def __len__(self) -> int:
        return len(self._payloads)

    @property
    def used_bytes(self) -> int:
        """Bytes of all blocks in the pool."""
        return len(self._payloads) * self.block_bytes

    def get(self, key: bytes) -> memoryview | None:
        """Return a block's payload; None where it is not here."""
        return self._payloads.get(key)

    def keep(self, keys: list[bytes], payloads: list[memoryview]) -> int:
        """
        Keep a prompt's blocks, from block 0 on, and let the coldest leave.

        A prompt that is longer than the pool keeps its head. The pool holds references: the
        payloads must not change afterwards.

        Returns:
            How many blocks left the pool.

        Raises:
            LayoutMismatchError: If a payload has another size than the pool's blocks.
        """
        for payload in payloads:
            if payload.nbytes != self.block_bytes:
                raise LayoutMismatchError(
                    f"payload is {payload.nbytes} bytes, must be {self.block_bytes}"
                )
        fitting = list(zip(keys, payloads, strict=True))[: self.blocks_max]
        for key, payload in reversed(fitting):
            self._payloads[key] = payload
            self._payloads.move_to_end(key)
        left = 0
        while len(self._payloads) > self.blocks_max:
            self._payloads.popitem(last=False)
            left += 1
        return left
