"""Causal attention with grouped heads, in float32 with numpy. Pure."""

import numpy as np

from hearthkv.demo.model_shape import Float32Array

KEYS_PER_TILE = 256
"""Keys and values are read in tiles of this many, at absolute multiples of it."""

_ROWS_PER_PART = 96  # with three heads a group, one part's scores stay in the L2 cache


def attend(
    queries: Float32Array, keys: Float32Array, values: Float32Array, start: int
) -> Float32Array:
    """
    Let each row attend to all positions up to its own; return (rows, heads * head_dim).

    What a row gets depends on its queries, on the keys and values up to the end of its own
    tile, and on its place in a part, but not on how many rows are computed with it.

    Args:
        queries: (rows, heads, head_dim), scaled; row 0 is at position `start`.
        keys: (tokens, kv_heads, head_dim), whole tiles; finite behind the last position too.
        values: As keys.
        start: Absolute position.
    """
    rows, heads, head_dim = queries.shape
    kv_heads = keys.shape[1]
    grouped = queries.reshape(rows, kv_heads, heads // kv_heads, head_dim)
    attended = np.empty_like(grouped)
    for row in range(0, rows, _ROWS_PER_PART):
        part = slice(row, min(row + _ROWS_PER_PART, rows))
        mask = _CausalMask(start + part.start, start + part.stop, len(keys))
        for head in range(kv_heads):
            # Group by group, so that every group starts on a whole multiple of rows.
            own = grouped[part, head].swapaxes(0, 1)
            summed = _attend_tiles(own, keys[:, head], values[:, head], mask)
            attended[part, head] = summed.swapaxes(0, 1)
    return attended.reshape(rows, heads * head_dim)


def attend_last(queries: Float32Array, keys: Float32Array, values: Float32Array) -> Float32Array:
    """
    Let the last position attend to all; return (heads * head_dim,).

    Args:
        queries: (heads, head_dim), scaled.
        keys: (tokens, kv_heads, head_dim), no token more than there are positions.
        values: As keys.
    """
    heads, head_dim = queries.shape
    kv_heads = keys.shape[1]
    grouped = queries.reshape(kv_heads, heads // kv_heads, head_dim)
    attended = np.empty_like(grouped)
    for head in range(kv_heads):
        scores = (keys[:, head] @ grouped[head].T).T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        attended[head] = weights @ values[:, head]
    return attended.reshape(heads * head_dim)


class _CausalMask:
    """Which of `key_count` keys the rows at positions `start` to `end` may see."""

    def __init__(self, start: int, end: int, key_count: int) -> None:
        # Rows that only fill the grid may lie behind the last key.
        self.keys_end = min(-(-end // KEYS_PER_TILE) * KEYS_PER_TILE, key_count)
        self.keys_start = start // KEYS_PER_TILE * KEYS_PER_TILE  # all rows see all keys before
        behind = np.arange(self.keys_start, self.keys_end) > np.arange(start, end)[:, None]
        self._bias = np.where(behind, np.float32(-np.inf), np.float32(0))

    def apply(self, scores: Float32Array, tile: int) -> None:
        """Hide from `scores`, (groups, rows, keys), what lies behind each row."""
        if tile >= self.keys_start:
            column = tile - self.keys_start
            scores += self._bias[:, column : column + KEYS_PER_TILE]


def _attend_tiles(
    queries: Float32Array, keys: Float32Array, values: Float32Array, mask: _CausalMask
) -> Float32Array:
    """
    Attend for one key head; return the shape of `queries`, (group, rows, head_dim).

    The softmax is summed tile by tile: when a tile brings a greater maximum, what was
    summed before is scaled down to it. A tile of only hidden keys changes nothing.
    """
    group, rows, head_dim = queries.shape
    flat = queries.reshape(group * rows, head_dim)
    scores = np.empty((group * rows, KEYS_PER_TILE), np.float32)
    ones = np.ones((KEYS_PER_TILE, 1), np.float32)
    peak = np.full((group * rows, 1), -np.inf, np.float32)
    total = np.zeros((group * rows, 1), np.float32)
    output = np.zeros((group * rows, head_dim), np.float32)
    for tile in range(0, mask.keys_end, KEYS_PER_TILE):
        here = slice(tile, tile + KEYS_PER_TILE)
        np.matmul(flat, keys[here].T, out=scores)
        mask.apply(scores.reshape(group, rows, KEYS_PER_TILE), tile)
        new_peak = np.maximum(peak, scores.max(axis=1, keepdims=True))
        shrink = np.exp(peak - new_peak)
        np.subtract(scores, new_peak, out=scores)
        np.exp(scores, out=scores)
        total *= shrink
        total += scores @ ones
        output *= shrink
        output += scores @ values[here]
        peak = new_peak
    output /= total
    return output.reshape(group, rows, head_dim)
