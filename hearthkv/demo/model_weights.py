"""Load a Llama model's shape and weights from a GGUF file, ready for matrix products."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from hearthkv.core.errors import ModelFileError
from hearthkv.demo.gguf_file import GgufFile
from hearthkv.demo.model_shape import Float32Array, ModelShape


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """
    The float32 matrices of one layer, each of shape (outputs, inputs), C order.

    `qkv` is query over key over value, and `gate_up` is gate over up, so that one product
    serves them together.
    """

    attention_norm: Float32Array  # (hidden,)
    qkv: Float32Array  # ((heads + 2 * kv_heads) * head_dim, hidden)
    attention_output: Float32Array  # (hidden, heads * head_dim)
    ffn_norm: Float32Array  # (hidden,)
    gate_up: Float32Array  # (2 * ffn, hidden)
    down: Float32Array  # (hidden, ffn)


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """All weights of a model whose output matrix is its embedding matrix."""

    shape: ModelShape
    embedding: Float32Array  # (vocabulary, hidden)
    layers: tuple[LayerWeights, ...]
    output_norm: Float32Array  # (hidden,)

    @classmethod
    def from_gguf(cls, file: GgufFile) -> Self:
        """
        Load and dequantise every weight.

        Raises:
            ModelFileError: If the model is no Llama with tied embeddings, or a tensor is
                missing or of another shape.
        """
        shape = read_shape(file)
        if "output.weight" in file.tensor_names:
            raise ModelFileError(f"{file.path} has an output.weight, expected tied embeddings")
        return cls(
            shape=shape,
            embedding=file.tensor("token_embd.weight", (shape.vocabulary, shape.hidden)),
            layers=tuple(_layer(file, shape, index) for index in range(shape.layers)),
            output_norm=file.tensor("output_norm.weight", (shape.hidden,)),
        )


def read_shape(file: GgufFile) -> ModelShape:
    """
    Read a model's shape from its file's metadata.

    Raises:
        ModelFileError: If the model is no Llama, or a figure is missing or impossible.
    """
    architecture = file.text("general.architecture")
    if architecture != "llama":
        raise ModelFileError(f"{file.path} holds a {architecture!r} model, expected 'llama'")
    return ModelShape(
        layers=file.integer("llama.block_count"),
        hidden=file.integer("llama.embedding_length"),
        ffn=file.integer("llama.feed_forward_length"),
        heads=file.integer("llama.attention.head_count"),
        kv_heads=file.integer("llama.attention.head_count_kv"),
        head_dim=file.integer("llama.rope.dimension_count"),
        vocabulary=file.integer("llama.vocab_size"),
        context_tokens=file.integer("llama.context_length"),
        rope_theta=file.real("llama.rope.freq_base"),
        norm_epsilon=file.real("llama.attention.layer_norm_rms_epsilon"),
    )


def _layer(file: GgufFile, shape: ModelShape, index: int) -> LayerWeights:
    def matrix(name: str, outputs: int, inputs: int) -> Float32Array:
        return file.tensor(f"blk.{index}.{name}.weight", (outputs, inputs))

    queries = shape.heads * shape.head_dim
    keys = shape.kv_heads * shape.head_dim
    return LayerWeights(
        attention_norm=file.tensor(f"blk.{index}.attn_norm.weight", (shape.hidden,)),
        qkv=np.concatenate(
            [
                _halves_apart(matrix("attn_q", queries, shape.hidden), shape.head_dim),
                _halves_apart(matrix("attn_k", keys, shape.hidden), shape.head_dim),
                matrix("attn_v", keys, shape.hidden),
            ]
        ),
        attention_output=matrix("attn_output", shape.hidden, queries),
        ffn_norm=file.tensor(f"blk.{index}.ffn_norm.weight", (shape.hidden,)),
        gate_up=np.concatenate(
            [
                matrix("ffn_gate", shape.ffn, shape.hidden),
                matrix("ffn_up", shape.ffn, shape.hidden),
            ]
        ),
        down=matrix("ffn_down", shape.hidden, shape.ffn),
    )


def _halves_apart(matrix: Float32Array, head_dim: int) -> Float32Array:
    """
    Undo GGUF's order of query and key rows.

    GGUF puts the two rows that rotate together side by side; here, as in transformers, the
    first of each pair are one half of a head and the second the other, so that rotating
    works on whole slices.
    """
    inputs = matrix.shape[1]
    pairs = matrix.reshape(-1, head_dim // 2, 2, inputs)
    return pairs.swapaxes(1, 2).reshape(-1, inputs)
