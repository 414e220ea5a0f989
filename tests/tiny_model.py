"""A tiny random Llama: its GGUF file, and what it should compute, in plain float64."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.gguf_writer import Value, f32, write_gguf

Array = npt.NDArray[np.float64]

LAYERS, HIDDEN, FFN, VOCABULARY, CONTEXT = 2, 32, 48, 60, 1024
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 8
THETA, EPSILON = 10_000.0, 1e-5

METADATA: dict[str, Value] = {
    "general.architecture": "llama",
    "llama.block_count": LAYERS,
    "llama.embedding_length": HIDDEN,
    "llama.feed_forward_length": FFN,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.rope.dimension_count": HEAD_DIM,
    "llama.vocab_size": VOCABULARY,
    "llama.context_length": CONTEXT,
    "llama.rope.freq_base": THETA,
    "llama.attention.layer_norm_rms_epsilon": EPSILON,
}

LAYER_SHAPES = {
    "attn_norm": (HIDDEN,),
    "attn_q": (HEADS * HEAD_DIM, HIDDEN),
    "attn_k": (KV_HEADS * HEAD_DIM, HIDDEN),
    "attn_v": (KV_HEADS * HEAD_DIM, HIDDEN),
    "attn_output": (HIDDEN, HEADS * HEAD_DIM),
    "ffn_norm": (HIDDEN,),
    "ffn_gate": (FFN, HIDDEN),
    "ffn_up": (FFN, HIDDEN),
    "ffn_down": (HIDDEN, FFN),
}


@dataclass(frozen=True)
class TinyModel:
    """Tensors by their GGUF names, float32 values, rows in GGUF's order."""

    tensors: dict[str, npt.NDArray[np.float32]]

    @classmethod
    def random(cls, seed: int) -> "TinyModel":
        """Return a model with random weights, large enough that attention is not flat."""
        random = np.random.default_rng(seed)
        shapes = {"token_embd.weight": (VOCABULARY, HIDDEN), "output_norm.weight": (HIDDEN,)}
        for layer in range(LAYERS):
            shapes |= {f"blk.{layer}.{name}.weight": s for name, s in LAYER_SHAPES.items()}
        return cls(
            {
                name: random.standard_normal(shape, np.float32)
                if len(shape) == 1
                else random.standard_normal(shape, np.float32) * np.float32(shape[1] ** -0.5 * 2)
                for name, shape in shapes.items()
            }
        )

    def write(self, path: Path) -> Path:
        """Write the model as a GGUF file."""
        return write_gguf(path, METADATA, {name: f32(a) for name, a in self.tensors.items()})

    def logits(self, tokens: list[int]) -> Array:
        """Return the logits after every token, (tokens, vocabulary), one position at a time."""
        hidden = self._tensor("token_embd")[tokens]
        for layer in range(LAYERS):
            hidden = hidden + self._attention(hidden, f"blk.{layer}.")
            normed = _rms_norm(hidden, self._tensor(f"blk.{layer}.ffn_norm"))
            gate = normed @ self._tensor(f"blk.{layer}.ffn_gate").T
            up = normed @ self._tensor(f"blk.{layer}.ffn_up").T
            hidden = (
                hidden + (gate / (1 + np.exp(-gate)) * up) @ self._tensor(f"blk.{layer}.ffn_down").T
            )
        return _rms_norm(hidden, self._tensor("output_norm")) @ self._tensor("token_embd").T

    def _attention(self, hidden: Array, layer: str) -> Array:
        normed = _rms_norm(hidden, self._tensor(layer + "attn_norm"))
        count = len(hidden)
        queries = _rotate((normed @ self._tensor(layer + "attn_q").T).reshape(count, HEADS, -1))
        keys = _rotate((normed @ self._tensor(layer + "attn_k").T).reshape(count, KV_HEADS, -1))
        values = (normed @ self._tensor(layer + "attn_v").T).reshape(count, KV_HEADS, -1)
        attended = np.empty((count, HEADS, HEAD_DIM))
        for head in range(HEADS):
            kv_head = head // (HEADS // KV_HEADS)
            for row in range(count):
                scores = keys[: row + 1, kv_head] @ queries[row, head] / HEAD_DIM**0.5
                weights = np.exp(scores - scores.max())
                attended[row, head] = weights / weights.sum() @ values[: row + 1, kv_head]
        return attended.reshape(count, -1) @ self._tensor(layer + "attn_output").T

    def _tensor(self, name: str) -> Array:
        return self.tensors[f"{name}.weight"].astype(np.float64)


def _rotate(heads: Array) -> Array:
    """Rotate neighbouring pairs, which is how GGUF orders query and key rows."""
    positions = np.arange(len(heads))[:, None, None]
    angles = positions * THETA ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    even, odd = heads[..., ::2], heads[..., 1::2]
    turned = np.empty_like(heads)
    turned[..., ::2] = even * np.cos(angles) - odd * np.sin(angles)
    turned[..., 1::2] = odd * np.cos(angles) + even * np.sin(angles)
    return turned


def _rms_norm(rows: Array, weight: Array) -> Array:
    return rows / np.sqrt(np.mean(rows**2, axis=-1, keepdims=True) + EPSILON) * weight
