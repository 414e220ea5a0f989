"""
Blocks as they come from a node, put in their places and checked. Pure.

What a node sends is trusted in nothing: order, length and checksum must be right, block by
block (I1). The first that is not ends the run; the blocks before it count.
"""

from collections.abc import Callable

from hearthkv.client.outcome import MISS_OF_END, MissReason
from hearthkv.core.block_io import BlockChunk, BlockHeader, ReadEnd
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.checksum import block_checksum
from hearthkv.core.errors import PeerContractError
from hearthkv.core.tier import Tier, TierCounts


class PrefixAssembly:
    """
    A run of blocks that is being loaded.

    Args:
        buffer: Writable bytes, `len(keys) * block_bytes` or more; block i is put at
            `i * block_bytes`. What lies behind the blocks that count is undefined.
        keys: Keys of the blocks that were asked for, in order.
        namespace_id, block_bytes: Of their namespace.
        on_progress: Told the number of leading blocks that count, each time that there is one
            more.
    """

    def __init__(
        self,
        buffer: memoryview,
        keys: PackedKeys,
        *,
        namespace_id: bytes,
        block_bytes: int,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        assert len(buffer) >= len(keys) * block_bytes
        self.checksums: list[int] = []
        """Of the blocks that count, as their writer made them."""

        self._on_progress = on_progress
        self._buffer = buffer
        self._keys = keys
        self._namespace_id = namespace_id
        self._block_bytes = block_bytes
        self._tiers: list[Tier] = []
        self._header: BlockHeader | None = None
        """Header of the block that is under way."""
        self._received_bytes = 0
        """Of that block."""
        self._miss: MissReason | None = None

    @property
    def blocks(self) -> int:
        """Leading blocks that are in place and verified."""
        return len(self._tiers)

    def payload(self, block: int) -> memoryview:
        """The bytes of a block that counts."""
        assert block < self.blocks
        base = block * self._block_bytes
        return self._buffer[base : base + self._block_bytes]

    @property
    def by_tier(self) -> TierCounts:
        """The same, by the tier that they came from."""
        return TierCounts.count(self._tiers)

    @property
    def is_complete(self) -> bool:
        """Whether every block that was asked for is in place."""
        return self.blocks == len(self._keys)

    @property
    def is_over(self) -> bool:
        """Whether no more is to be taken in."""
        return self.is_complete or self._miss is not None

    @property
    def miss(self) -> MissReason | None:
        """Why the run ended early; None where it did not, or goes on."""
        return self._miss

    @property
    def has_progress(self) -> bool:
        """Whether any of the bytes came."""
        return self._header is not None or self.blocks > 0

    def give_up(self, reason: MissReason) -> None:
        """End the run here, for a reason that lies outside."""
        self._miss = reason

    def take(self, step: BlockChunk | ReadEnd) -> None:
        """
        Take in the next step of the read. Not to be called once it is over.

        Raises:
            PeerContractError: If the step breaks the contract; what counted before still counts.
        """
        assert not self.is_over
        if isinstance(step, ReadEnd):
            if step is ReadEnd.COMPLETE:
                raise PeerContractError(
                    f"read is complete after {self.blocks} blocks, must be {len(self._keys)}"
                )
            self._miss = MISS_OF_END[step]
            return
        if step.header is not None:
            self._open(step.header)
        header = self._header
        if header is None:
            raise PeerContractError("chunk has no header, must have one at the start of a block")
        self._put(step.data, is_first=step.header is not None)
        if self._received_bytes == self._block_bytes:
            self._close(header)

    def _open(self, header: BlockHeader) -> None:
        if self._header is not None:
            raise PeerContractError(
                f"block {self.blocks} ends after {self._received_bytes} bytes, "
                f"must have {self._block_bytes}"
            )
        if header.key != self._keys[self.blocks]:
            raise PeerContractError(f"block {self.blocks} has another key than was asked for")
        if header.size_bytes != self._block_bytes:
            raise PeerContractError(
                f"block {self.blocks} has {header.size_bytes} bytes, must have {self._block_bytes}"
            )
        if header.tier is None:
            raise PeerContractError(f"block {self.blocks} has no tier, must have one on a read")
        self._header = header
        self._received_bytes = 0

    def _put(self, data: bytes | memoryview, *, is_first: bool) -> None:
        if not data and not is_first:
            raise PeerContractError("chunk is empty, must bring the next bytes")
        end = self._received_bytes + len(data)
        if end > self._block_bytes:
            raise PeerContractError(
                f"block {self.blocks} has {end} bytes or more, must have {self._block_bytes}"
            )
        base = self.blocks * self._block_bytes
        self._buffer[base + self._received_bytes : base + end] = data
        self._received_bytes = end

    def _close(self, header: BlockHeader) -> None:
        base = self.blocks * self._block_bytes
        payload = self._buffer[base : base + self._block_bytes]
        self._header = None
        if block_checksum(self._namespace_id, header.key, payload) != header.checksum:
            self._miss = MissReason.CORRUPT
            return
        assert header.tier is not None
        self._tiers.append(header.tier)
        self.checksums.append(header.checksum)
        if self._on_progress is not None:
            self._on_progress(self.blocks)
