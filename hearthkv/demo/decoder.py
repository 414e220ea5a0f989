"""
Run a Llama decoder in float32 with numpy. No I/O; threads only inside a call.

A prompt is computed in chunks of rows, each chunk spread over threads. A BLAS kernel sums
the rows of a product in small groups, and the last bits of a row depend on its place in
its group. So spans of rows start and end at absolute multiples of `GRID_ROWS`, with unused
rows in between zero, and keys are read in tiles at absolute multiples of `KEYS_PER_TILE`.
A token's result then doesn't depend on where the prompt was cut, on the number of threads,
or on how much of it came from a cache: warm and cold runs agree, on usual kernels bit for bit.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Barrier, Lock
from typing import Self

import numpy as np
from threadpoolctl import ThreadpoolController

from hearthkv.core.errors import BadRequestError, LayoutMismatchError
from hearthkv.demo.attention import attend, attend_last
from hearthkv.demo.kv_cache import KVCache
from hearthkv.demo.model_shape import Float32Array, ModelShape
from hearthkv.demo.model_weights import LayerWeights, ModelWeights

GRID_ROWS = 48
"""Rows per grid cell: a multiple of the groups of 4, 6, 12 and 16 rows that kernels take."""

CELLS_PER_THREAD = 4
"""Grid cells that a thread takes of one chunk: fewer are slower, more are slow to stop."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Consecutive rows of a chunk, computed by one thread. Positions are absolute."""

    hidden: Float32Array  # (rows, hidden): a view of the chunk, layer by layer brought forward
    start: int  # position of the first row
    used: slice  # the rows that stand for tokens to compute; the others only fill the grid
    positions: slice  # of the used rows

    @classmethod
    def of_rows(cls, hidden: Float32Array, start: int, used_start: int, used_end: int) -> Self:
        """Make the span of `hidden`, in which the given positions are used."""
        first = max(used_start, start)
        last = min(used_end, start + len(hidden))
        return cls(hidden, start, slice(first - start, last - start), slice(first, last))


class Decoder:
    """
    A Llama decoder over one set of weights.

    Calls exclude each other, so a decoder may be shared; a cache belongs to one caller at
    a time. Making one holds BLAS to a single thread in the whole process: rows are spread
    over `threads` Python threads instead, which wastes less at these sizes.
    """

    def __init__(self, weights: ModelWeights, threads: int = 2) -> None:
        self.shape = weights.shape
        self._weights = weights
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="decoder")
        self._lock = Lock()
        self._cosines, self._sines = _rotation_tables(weights.shape)
        ThreadpoolController().limit(limits=1, user_api="blas")

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()

    def new_cache(self, capacity_tokens: int) -> KVCache:
        """Return an empty cache for this model."""
        return KVCache(self.shape, capacity_tokens)

    def forward(
        self,
        tokens: Sequence[int],
        cache: KVCache,
        should_stop: Callable[[], bool] | None = None,
    ) -> Float32Array | None:
        """
        Append `tokens` to the cache and return the logits after the last, (vocabulary,).

        `should_stop` is asked before each chunk. Once it says yes the answer is None, and
        the cache holds the tokens of the chunks that were finished.

        Raises:
            LayoutMismatchError: If there are no tokens, or more than the cache has room for.
            BadRequestError: If a token is outside the vocabulary.
        """
        self._check(tokens, cache)
        end = cache.length + len(tokens)
        rows_max = self._threads * CELLS_PER_THREAD * GRID_ROWS
        last = np.empty(0, np.float32)
        with self._lock:
            while cache.length < end:
                if should_stop is not None and should_stop():
                    return None
                # Chunks end at multiples of their size, whatever position they start at.
                count = min(end, (cache.length // rows_max + 1) * rows_max) - cache.length
                chunk, tokens = tokens[:count], tokens[count:]
                last = self._run_chunk(chunk, cache)
                cache.length += count
            return self._logits(last)

    def step(self, token: int, cache: KVCache) -> Float32Array:
        """
        Append one generated token and return the logits after it, (vocabulary,).

        Much faster than `forward` of one token, but its keys and values differ from those
        in the last bits.

        Raises:
            LayoutMismatchError: If the cache is full.
            BadRequestError: If the token is outside the vocabulary.
        """
        self._check([token], cache)
        end = cache.length + 1
        hidden = self._weights.embedding[[token]]
        with self._lock:
            for index, layer in enumerate(self._weights.layers):
                queries, keys, values = self._project(hidden, layer, cache.length)
                cache.keys[index, cache.length] = keys[0]
                cache.values[index, cache.length] = values[0]
                attended = attend_last(
                    queries[0], cache.keys[index, :end], cache.values[index, :end]
                )
                hidden += attended @ layer.attention_output.T
                self._feed_forward(hidden, layer)
            cache.length = end
            return self._logits(hidden[0])

    def _check(self, tokens: Sequence[int], cache: KVCache) -> None:
        room = cache.capacity_tokens - cache.length
        if not 1 <= len(tokens) <= room:
            raise LayoutMismatchError(f"{len(tokens)} tokens to compute, must be 1 to {room}")
        lowest, highest = min(tokens), max(tokens)
        if lowest < 0 or highest >= self.shape.vocabulary:
            raise BadRequestError(
                f"tokens are {lowest} to {highest}, must be 0 to {self.shape.vocabulary - 1}"
            )

    def _run_chunk(self, tokens: Sequence[int], cache: KVCache) -> Float32Array:
        """Compute one chunk on the grid and return the hidden state of its last token."""
        start, end = cache.length, cache.length + len(tokens)
        grid_start = start // GRID_ROWS * GRID_ROWS
        cells = -(-(end - grid_start) // GRID_ROWS)
        hidden: Float32Array = np.zeros((cells * GRID_ROWS, self.shape.hidden), np.float32)
        hidden[start - grid_start : end - grid_start] = self._weights.embedding[list(tokens)]
        rows_per_span = -(-cells // self._threads) * GRID_ROWS
        spans = [
            _Span.of_rows(hidden[row : row + rows_per_span], grid_start + row, start, end)
            for row in range(0, len(hidden), rows_per_span)
        ]
        barrier = Barrier(len(spans))
        futures = [self._pool.submit(self._run_span, span, cache, barrier) for span in spans]
        wait(futures)
        for future in futures:
            future.result()
        last: Float32Array = hidden[end - grid_start - 1]
        return last

    def _run_span(self, span: _Span, cache: KVCache, barrier: Barrier) -> None:
        """Take one span through all layers, in step with the chunk's other spans."""
        try:
            for index, layer in enumerate(self._weights.layers):
                queries, keys, values = self._project(span.hidden, layer, span.start)
                cache.keys[index, span.positions] = keys[span.used]
                cache.values[index, span.positions] = values[span.used]
                barrier.wait()  # Until the keys and values of the whole chunk are in place.
                attended = attend(queries, cache.keys[index], cache.values[index], span.start)
                np.add(span.hidden, attended @ layer.attention_output.T, out=span.hidden)
                self._feed_forward(span.hidden, layer)
        except BaseException:
            barrier.abort()  # The other spans must not wait for this one.
            raise

    def _project(
        self, hidden: Float32Array, layer: LayerWeights, start: int
    ) -> tuple[Float32Array, Float32Array, Float32Array]:
        """Return queries (scaled), keys and values, each (rows, its heads, head_dim)."""
        shape = self.shape
        normed = _rms_norm(hidden, layer.attention_norm, shape.norm_epsilon)
        projected = (normed @ layer.qkv.T).reshape(len(hidden), -1, shape.head_dim)
        rotated = shape.heads + shape.kv_heads
        positions = slice(start, start + len(hidden))
        _rotate(projected[:, :rotated], self._cosines[positions], self._sines[positions])
        queries = projected[:, : shape.heads] * np.float32(1 / math.sqrt(shape.head_dim))
        return queries, projected[:, shape.heads : rotated], projected[:, rotated:]

    def _feed_forward(self, hidden: Float32Array, layer: LayerWeights) -> None:
        """Add the layer's feed-forward part to `hidden`, in place."""
        normed = _rms_norm(hidden, layer.ffn_norm, self.shape.norm_epsilon)
        gate_up = normed @ layer.gate_up.T
        gate, up = gate_up[:, : self.shape.ffn], gate_up[:, self.shape.ffn :]
        hidden += _silu(gate, up) @ layer.down.T

    def _logits(self, hidden: Float32Array) -> Float32Array:
        normed = _rms_norm(hidden, self._weights.output_norm, self.shape.norm_epsilon)
        logits: Float32Array = self._weights.embedding @ normed
        return logits


def _rotation_tables(shape: ModelShape) -> tuple[Float32Array, Float32Array]:
    """Return cosines and sines, each (positions, 1, head_dim / 2), for all grid positions."""
    # A grid cell may reach over the end of the context.
    positions = np.arange(shape.context_tokens + GRID_ROWS, dtype=np.float64)
    exponents = np.arange(0, shape.head_dim, 2) / shape.head_dim
    angles = positions[:, None, None] * shape.rope_theta**-exponents
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _rotate(heads: Float32Array, cosines: Float32Array, sines: Float32Array) -> None:
    """Rotate each head of (rows, heads, head_dim) in place by its row's position."""
    half = heads.shape[-1] // 2
    first, second = heads[..., :half], heads[..., half:]
    turned = first * cosines - second * sines
    second[...] = second * cosines + first * sines
    first[...] = turned


def _rms_norm(rows: Float32Array, weight: Float32Array, epsilon: float) -> Float32Array:
    mean_square = np.einsum("...i,...i->...", rows, rows)[..., None] / np.float32(len(weight))
    normed: Float32Array = rows / np.sqrt(mean_square + np.float32(epsilon)) * weight
    return normed


def _silu(gate: Float32Array, up: Float32Array) -> Float32Array:
    """Return gate * sigmoid(gate) * up."""
    with np.errstate(over="ignore"):  # exp of a large number is inf, and x / inf is 0
        sigmoid_inverse = np.exp(-gate)
    sigmoid_inverse += 1
    np.divide(gate, sigmoid_inverse, out=sigmoid_inverse)
    sigmoid_inverse *= up
    return sigmoid_inverse
