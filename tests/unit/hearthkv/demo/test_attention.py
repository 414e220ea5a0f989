"""Tests of hearthkv/demo/attention.py."""

import numpy as np
import numpy.typing as npt
import pytest

from hearthkv.demo.attention import KEYS_PER_TILE, attend, attend_last

Array = npt.NDArray[np.float32]

HEADS, KV_HEADS, HEAD_DIM = 6, 2, 8
TOKENS = 3 * KEYS_PER_TILE


def random(*shape: int, scale: float = 1.0) -> Array:
    seed = np.random.default_rng(len(shape) + shape[0])
    return seed.standard_normal(shape, np.float32) * np.float32(scale)


def plain(queries: Array, keys: Array, values: Array, start: int) -> npt.NDArray[np.float64]:
    """Attention as the textbook has it, in float64."""
    rows = []
    for row, query in enumerate(queries.astype(np.float64)):
        heads = []
        for head, vector in enumerate(query):
            kv_head = head // (HEADS // KV_HEADS)
            scores = keys[: start + row + 1, kv_head].astype(np.float64) @ vector
            weights = np.exp(scores - scores.max())
            heads.append(weights / weights.sum() @ values[: start + row + 1, kv_head])
        rows.append(np.concatenate(heads))
    return np.array(rows)


@pytest.mark.parametrize("start", [0, 48, 240, 528])
@pytest.mark.parametrize("rows", [48, 96, 240])
@pytest.mark.parametrize("scale", [1.0, 30.0], ids=["soft", "peaked"])
def test_rows_attend_to_what_precedes_them(start: int, rows: int, scale: float):
    queries = random(rows, HEADS, HEAD_DIM, scale=scale)
    keys, values = random(TOKENS, KV_HEADS, HEAD_DIM), random(TOKENS, KV_HEADS, HEAD_DIM)[::-1]
    expected = plain(queries, keys, values, start)
    np.testing.assert_allclose(attend(queries, keys, values, start), expected, atol=2e-5 * scale)


def test_rows_behind_the_last_key_do_not_disturb_the_others():
    queries = random(96, HEADS, HEAD_DIM)
    keys = values = random(KEYS_PER_TILE, KV_HEADS, HEAD_DIM)
    start = KEYS_PER_TILE - 16
    expected = plain(queries[:16], keys, values, start)
    np.testing.assert_allclose(attend(queries, keys, values, start)[:16], expected, atol=2e-5)


def test_keys_behind_a_row_do_not_change_it():
    queries = random(48, HEADS, HEAD_DIM)
    keys, values = random(TOKENS, KV_HEADS, HEAD_DIM), random(TOKENS, KV_HEADS, HEAD_DIM)
    before = attend(queries, keys, values, 240)
    keys[288:] = 1000.0
    values[288:] = -1000.0
    assert np.array_equal(attend(queries, keys, values, 240), before)


@pytest.mark.parametrize("count", [1, 255, 700])
def test_the_last_position_attends_to_all(count: int):
    query = random(1, HEADS, HEAD_DIM, scale=3.0)
    keys, values = random(count, KV_HEADS, HEAD_DIM), random(count, KV_HEADS, HEAD_DIM)[::-1]
    expected = plain(query, keys, values, count - 1)[0]
    np.testing.assert_allclose(attend_last(query[0], keys, values), expected, atol=2e-5)
