"""Tests of hearthkv/demo/model_weights.py."""

from pathlib import Path

import numpy as np
import pytest

from hearthkv.core.errors import ModelFileError
from hearthkv.demo.gguf_file import GgufFile
from hearthkv.demo.model_shape import ModelShape
from hearthkv.demo.model_weights import ModelWeights
from tests.gguf_writer import f32, write_gguf
from tests.tiny_model import HEAD_DIM, HEADS, HIDDEN, KV_HEADS, METADATA, TinyModel


def test_the_shape_is_read_from_metadata(tiny_weights: ModelWeights):
    assert tiny_weights.shape == ModelShape(
        layers=2,
        hidden=32,
        ffn=48,
        heads=4,
        kv_heads=2,
        head_dim=8,
        vocabulary=60,
        context_tokens=1024,
        rope_theta=10_000.0,
        norm_epsilon=pytest.approx(1e-5),
    )


def test_queries_and_keys_have_their_rotary_halves_apart(
    tiny_model: TinyModel, tiny_weights: ModelWeights
):
    filed = tiny_model.tensors["blk.1.attn_q.weight"].reshape(HEADS, HEAD_DIM, HIDDEN)
    loaded = tiny_weights.layers[1].qkv[: HEADS * HEAD_DIM].reshape(HEADS, HEAD_DIM, HIDDEN)
    assert np.array_equal(loaded[:, : HEAD_DIM // 2], filed[:, ::2])
    assert np.array_equal(loaded[:, HEAD_DIM // 2 :], filed[:, 1::2])


def test_values_follow_queries_and_keys(tiny_model: TinyModel, tiny_weights: ModelWeights):
    first = (HEADS + KV_HEADS) * HEAD_DIM
    assert np.array_equal(
        tiny_weights.layers[0].qkv[first:], tiny_model.tensors["blk.0.attn_v.weight"]
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"general.architecture": "gpt2"}, "'gpt2' model, expected 'llama'", id="gpt2"),
        pytest.param({"llama.block_count": 0}, "0 layers, must be >= 1", id="no-layers"),
        pytest.param(
            {"llama.vocab_size": 61}, r"shape \(60, 32\), expected \(61, 32\)", id="tensor"
        ),
    ],
)
def test_an_impossible_model_is_refused(
    tiny_model: TinyModel, tmp_path: Path, change: dict[str, str | int], expected: str
):
    tensors = {name: f32(array) for name, array in tiny_model.tensors.items()}
    path = write_gguf(tmp_path / "model.gguf", {**METADATA, **change}, tensors)
    with GgufFile(path) as file, pytest.raises(ModelFileError, match=expected):
        ModelWeights.from_gguf(file)


def test_an_output_matrix_of_its_own_is_refused(tmp_path: Path):
    path = write_gguf(tmp_path / "model.gguf", METADATA, {"output.weight": f32([1.0])})
    with GgufFile(path) as file, pytest.raises(ModelFileError, match="expected tied embeddings"):
        ModelWeights.from_gguf(file)
