"""hearthkv/core/key_samples.py: few keys say nearly as much as all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.key_samples import gap_after, sample

ALL = PackedKeys(b"".join(number.to_bytes(3, "big") for number in range(20_000)), 3)


@pytest.mark.parametrize("blocks", [0, 1, 1024])
def test_of_a_short_prompt_all_keys_are_told(blocks):
    samples = sample(ALL.slice(0, blocks), blocks)
    assert (samples.keys, list(samples.positions)) == (
        ALL.slice(0, blocks),
        list(range(1, blocks + 1)),
    )
    assert gap_after(samples, blocks // 2) == 0


@given(st.integers(1025, 20_000), st.data())
def test_of_a_long_prompt_at_most_257_keys_are_told_each_with_its_place(blocks, data):
    settled_blocks = data.draw(st.integers(0, blocks))
    samples = sample(ALL.slice(0, blocks), settled_blocks)
    positions = samples.positions
    assert len(positions) <= 257
    assert positions[-1] == samples.blocks == blocks
    assert [samples.keys[index] for index in range(len(samples))] == [
        ALL[position - 1] for position in positions
    ]
    dense = range(max(1, settled_blocks - 95), min(blocks, settled_blocks + 31))
    assert set(dense) <= set(positions)


@given(st.integers(1025, 20_000), st.data())
def test_a_match_is_short_by_less_than_one_step(blocks, data):
    held = data.draw(st.integers(0, blocks))
    samples = sample(ALL.slice(0, blocks), data.draw(st.integers(0, blocks)))
    matched = max((at for at in samples.positions if at <= held), default=0)
    assert matched <= held <= matched + gap_after(samples, matched)
    assert gap_after(samples, matched) < 2 * blocks / 128


def test_a_match_that_ends_where_the_last_prompt_did_is_exact():
    samples = sample(ALL.slice(0, 14_400), 14_000)
    assert [gap_after(samples, at) for at in (13_904, 13_999, 14_000, 14_031)] == [0] * 4
    assert gap_after(samples, 14_032) == 14_080 - 14_032 - 1
    assert gap_after(samples, 14_400) == 0


def test_equal_prefixes_have_keys_in_common_whatever_follows():
    short, long = sample(ALL.slice(0, 2_000), 0), sample(ALL.slice(0, 20_000), 0)
    common = set(short.positions) & set(long.positions)
    assert {at for at in long.positions if at <= 2_000} == common
