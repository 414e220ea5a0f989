"""Tests of hearthkv/demo/kv_cache.py."""

import numpy as np
import pytest

from hearthkv.core.errors import LayoutMismatchError
from hearthkv.demo.kv_cache import KVCache
from hearthkv.demo.model_shape import ModelShape

SHAPE = ModelShape(
    layers=3,
    hidden=8,
    ffn=8,
    heads=2,
    kv_heads=2,
    head_dim=4,
    vocabulary=10,
    context_tokens=300,
    rope_theta=10_000.0,
    norm_epsilon=1e-5,
)
BLOCK_BYTES = 2 * 3 * 16 * 2 * 4 * 4


def filled(length: int) -> KVCache:
    """A cache whose every value is another one."""
    cache = KVCache(SHAPE, 100)
    cache.kv[...] = np.random.default_rng(1).standard_normal(cache.kv.shape)
    cache.length = length
    return cache


def test_a_new_cache_is_empty_and_whole_tiles_long():
    cache = KVCache(SHAPE, 100)
    assert cache.length == 0
    assert cache.keys.shape == cache.values.shape == (3, 256, 2, 4)


def test_a_block_is_all_its_keys_then_all_its_values():
    cache = filled(48)
    block = np.frombuffer(cache.export_block(1, 16), np.float32).reshape(2, 3, 16, 2, 4)
    assert np.array_equal(block[0], cache.keys[:, 16:32])
    assert np.array_equal(block[1], cache.values[:, 16:32])


@pytest.mark.parametrize("block_size", [1, 16, 24])
def test_blocks_come_back_bit_for_bit(block_size: int):
    cache, copy = filled(48), KVCache(SHAPE, 100)
    for index in range(48 // block_size):
        copy.import_block(index, block_size, cache.export_block(index, block_size))
    assert copy.length == 48
    assert copy.kv[:, :, :48].tobytes() == cache.kv[:, :, :48].tobytes()


def test_a_block_is_exported_into_a_buffer_of_the_callers():
    cache = filled(32)
    buffer = bytearray(BLOCK_BYTES + 10)
    cache.export_block_into(1, 16, memoryview(buffer)[10:])
    assert buffer[10:] == cache.export_block(1, 16)
    assert cache.block_bytes(16) == BLOCK_BYTES


def test_an_exported_block_does_not_change_with_the_cache():
    cache = filled(16)
    block = cache.export_block(0, 16)
    before = bytes(block)
    cache.kv[...] = 0
    assert bytes(block) == before


@pytest.mark.parametrize(
    "index", [pytest.param(2, id="unfinished"), pytest.param(-1, id="negative")]
)
def test_only_whole_blocks_are_exported(index: int):
    with pytest.raises(LayoutMismatchError, match="the cache holds 47 tokens"):
        filled(47).export_block(index, 16)


@pytest.mark.parametrize("size_bytes", [0, BLOCK_BYTES - 4, BLOCK_BYTES + 1])
def test_a_buffer_of_another_size_is_refused(size_bytes: int):
    cache = filled(16)
    expected = f"{size_bytes} bytes, expected {BLOCK_BYTES}"
    with pytest.raises(LayoutMismatchError, match=expected):
        cache.import_block(1, 16, bytes(size_bytes))
    with pytest.raises(LayoutMismatchError, match=expected):
        cache.export_block_into(0, 16, memoryview(bytearray(size_bytes)))
    assert cache.length == 16


@pytest.mark.parametrize("index", [pytest.param(0, id="again"), pytest.param(2, id="gap")])
def test_blocks_are_imported_in_order(index: int):
    with pytest.raises(LayoutMismatchError, match="expected to start at 16"):
        filled(16).import_block(index, 16, bytes(BLOCK_BYTES))


def test_a_block_beyond_the_capacity_is_refused():
    with pytest.raises(LayoutMismatchError, match=r"covers tokens 96 to 112, .* to end by 100"):
        filled(96).import_block(6, 16, bytes(BLOCK_BYTES))


def test_a_cache_forgets_its_tail():
    cache = filled(40)
    cache.truncate(32)
    assert cache.length == 32
    with pytest.raises(LayoutMismatchError, match="cannot keep 33 of 32 tokens"):
        cache.truncate(33)


@pytest.mark.parametrize("capacity", [0, 301])
def test_a_capacity_beyond_the_models_context_is_refused(capacity: int):
    with pytest.raises(LayoutMismatchError, match=f"{capacity} tokens, must be 1 to 300"):
        KVCache(SHAPE, capacity)
