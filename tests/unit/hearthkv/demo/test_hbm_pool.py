"""Tests of hearthkv/demo/hbm_pool.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.errors import LayoutMismatchError
from hearthkv.demo.hbm_pool import HbmPool

BLOCK_BYTES = 8
A, B, C = b"a", b"b", b"c"


def payload(key: bytes) -> memoryview:
    return memoryview(key.ljust(BLOCK_BYTES)[:BLOCK_BYTES])


def pool_of(blocks: int) -> HbmPool:
    return HbmPool(blocks * BLOCK_BYTES, BLOCK_BYTES, 1.0)


def keep(pool: HbmPool, *keys: bytes) -> int:
    return pool.keep(list(keys), [payload(key) for key in keys])


def prefix(pool: HbmPool, keys: list[bytes]) -> list[memoryview]:
    """The payloads of the longest leading run of `keys` that is in the pool."""
    held = [pool.get(key) for key in keys]
    return [payload for payload in held[: [*held, None].index(None)] if payload is not None]


def chain(text: str) -> list[bytes]:
    """Keys of a prompt of one letter a block: each stands for all before it."""
    return [text[: end + 1].encode() for end in range(len(text))]


def test_what_was_kept_is_found_up_to_the_first_gap():
    pool = pool_of(8)
    keep(pool, A, B)
    assert prefix(pool, [A, B, C]) == [payload(A), payload(B)]
    assert prefix(pool, [C, A]) == []


def test_a_prompt_longer_than_the_pool_keeps_its_head():
    pool = pool_of(2)
    assert keep(pool, A, B, C) == 0
    assert len(prefix(pool, [A, B, C])) == 2


def test_the_coldest_prompt_leaves_from_its_tail():
    pool = pool_of(3)
    keep(pool, A, B)
    assert keep(pool, C, b"d") == 1
    assert len(prefix(pool, [A, B])) == 1
    assert len(prefix(pool, [C, b"d"])) == 2


def test_a_shared_head_stays_as_warm_as_its_warmest_prompt():
    pool = pool_of(3)
    keep(pool, *chain("xa"))
    keep(pool, *chain("xb"))
    keep(pool, *chain("xc"))
    assert len(prefix(pool, chain("xa"))) == 1
    assert len(prefix(pool, chain("xb"))) == len(prefix(pool, chain("xc"))) == 2


def test_blocks_leave_above_the_threshold_not_above_the_limit():
    pool = HbmPool(10 * BLOCK_BYTES, BLOCK_BYTES, 0.85)
    keep(pool, *chain("abcdefghij"))
    assert (pool.blocks_max, pool.used_bytes, pool.limit_bytes) == (8, 64, 80)


def test_a_pool_without_room_for_a_block_keeps_nothing():
    pool = HbmPool(BLOCK_BYTES - 1, BLOCK_BYTES, 1.0)
    keep(pool, A)
    assert prefix(pool, [A]) == []


def test_a_payload_of_another_size_is_refused_and_nothing_kept():
    pool = pool_of(4)
    with pytest.raises(LayoutMismatchError, match="payload is 7 bytes, must be 8"):
        pool.keep([A, B], [payload(A), payload(B)[:7]])
    assert len(pool) == 0


@given(
    blocks=st.integers(0, 12),
    prompts=st.lists(st.text(alphabet="ab", max_size=9), max_size=12),
)
def test_the_pool_is_bounded_and_prefix_closed_and_gives_the_right_bytes(
    blocks: int, prompts: list[str]
):
    """I1, I2 and I3, after every prompt."""
    pool = pool_of(blocks)
    for prompt in prompts:
        keys = chain(prompt)
        before = len(pool)
        added = sum(key not in pool._payloads for key in keys[:blocks])
        left = keep(pool, *keys)
        assert len(pool) == before + added - left
        assert pool.used_bytes == len(pool) * BLOCK_BYTES <= pool.limit_bytes
        assert prefix(pool, keys) == [payload(key) for key in keys[:blocks]]
        for held in pool._payloads:
            assert len(held) == 1 or held[:-1] in pool._payloads
            assert pool._payloads[held] == payload(held)
