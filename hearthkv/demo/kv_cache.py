"""Hold the keys and values of one sequence, and cut them into blocks of bytes. Pure."""

import numpy as np

from hearthkv.core.errors import LayoutMismatchError
from hearthkv.demo.attention import KEYS_PER_TILE
from hearthkv.demo.model_shape import Float32Array, ModelShape


class KVCache:
    """
    The keys and values of the first `length` tokens of one sequence.

    `kv` is float32 of shape (2, layers, tokens, kv_heads, head_dim), C order; `keys` and
    `values` are its two halves. It is `capacity_tokens` long, rounded up to whole tiles.
    Invariant: `0 <= length <= capacity_tokens`; what lies behind `length` is finite, and
    no token before it attends to it.

    The bytes of a block are float32, (2, layers, block_size, kv_heads, head_dim), C order:
    the block's own keys of all layers, then its values.
    """

    def __init__(self, shape: ModelShape, capacity_tokens: int) -> None:
        """
        Make an empty cache.

        Raises:
            LayoutMismatchError: If the model's context is shorter than `capacity_tokens`.
        """
        if not 1 <= capacity_tokens <= shape.context_tokens:
            raise LayoutMismatchError(
                f"capacity is {capacity_tokens} tokens, must be 1 to {shape.context_tokens}"
            )
        tokens = -(-capacity_tokens // KEYS_PER_TILE) * KEYS_PER_TILE
        # Zeroed pages cost memory only once they are written.
        self.kv: Float32Array = np.zeros(
            (2, shape.layers, tokens, shape.kv_heads, shape.head_dim), np.float32
        )
        self.keys = self.kv[0]
        self.values = self.kv[1]
        self.capacity_tokens = capacity_tokens
        self.length = 0

    def block_bytes(self, block_size: int) -> int:
        """Size of one block of `block_size` tokens, in bytes."""
        return self.kv[:, :, :1].nbytes * block_size

    def export_block(self, index: int, block_size: int) -> memoryview:
        """
        Return a copy of block `index`; the caller owns it.

        Raises:
            LayoutMismatchError: If the block isn't wholly below `length`.
        """
        copy = np.empty(self.block_bytes(block_size), np.uint8)
        self.export_block_into(index, block_size, copy.data)
        return copy.data

    def export_block_into(self, index: int, block_size: int, target: memoryview) -> None:
        """
        Copy block `index` into `target`, which must have exactly its size.

        Raises:
            LayoutMismatchError: If the block isn't wholly below `length`, or `target` has
                another size.
        """
        end = (index + 1) * block_size
        if index < 0 or end > self.length:
            raise LayoutMismatchError(
                f"block {index} of {block_size} tokens ends at {end}, "
                f"the cache holds {self.length} tokens"
            )
        block = self._block(index, block_size)
        self._as_block(target, block_size)[...] = block

    def import_block(self, index: int, block_size: int, source: memoryview | bytes) -> None:
        """
        Append block `index`, whose first token must be the one after the cache's last.

        Raises:
            LayoutMismatchError: If the block isn't the next one, doesn't fit the capacity,
                or `source` has another size.
        """
        start, end = index * block_size, (index + 1) * block_size
        if start != self.length or end > self.capacity_tokens:
            raise LayoutMismatchError(
                f"block {index} covers tokens {start} to {end}, expected to start at "
                f"{self.length} and to end by {self.capacity_tokens}"
            )
        self._block(index, block_size)[...] = self._as_block(source, block_size)
        self.length = end

    def truncate(self, length: int) -> None:
        """
        Forget all tokens from `length` on.

        Raises:
            LayoutMismatchError: If the cache holds fewer.
        """
        if not 0 <= length <= self.length:
            raise LayoutMismatchError(f"cannot keep {length} of {self.length} tokens")
        self.length = length

    def _block(self, index: int, block_size: int) -> Float32Array:
        return self.kv[:, :, index * block_size : (index + 1) * block_size]

    def _as_block(self, buffer: memoryview | bytes, block_size: int) -> Float32Array:
        """Return `buffer` as the array of one block, without copying."""
        size_bytes = memoryview(buffer).nbytes
        if size_bytes != self.block_bytes(block_size):
            raise LayoutMismatchError(
                f"block buffer is {size_bytes} bytes, expected {self.block_bytes(block_size)}"
            )
        _, layers, _, kv_heads, head_dim = self.kv.shape
        flat = np.frombuffer(buffer, np.float32)
        return flat.reshape(2, layers, block_size, kv_heads, head_dim)
