"""Tests of hearthkv/demo/model_shape.py."""

from dataclasses import replace

import pytest

from hearthkv.core.errors import ModelFileError
from hearthkv.demo.model_shape import ModelShape

SHAPE = ModelShape(
    layers=30,
    hidden=576,
    ffn=1536,
    heads=9,
    kv_heads=3,
    head_dim=64,
    vocabulary=49152,
    context_tokens=8192,
    rope_theta=100_000.0,
    norm_epsilon=1e-5,
)


def test_kv_bytes_per_token_count_keys_and_values_of_all_layers():
    assert SHAPE.kv_bytes_per_token == 46_080


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"layers": 0}, "0 layers, must be >= 1", id="no-layers"),
        pytest.param({"context_tokens": -1}, "-1 context_tokens, must be >= 1", id="no-context"),
        pytest.param(
            {"kv_heads": 2}, "9 heads, expected a multiple of its 2 kv heads", id="groups"
        ),
        pytest.param({"head_dim": 63}, "head_dim of 63, must be even", id="odd-head"),
    ],
)
def test_impossible_figures_are_refused(change: dict[str, int], expected: str):
    with pytest.raises(ModelFileError, match=expected):
        replace(SHAPE, **change)
