"""The figures of a Llama model, and the array type that everything about it uses. Pure."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hearthkv.core.errors import ModelFileError

Float32Array: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The figures that fix the size of every array of a Llama model."""

    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context_tokens: int
    rope_theta: float
    norm_epsilon: float

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "context_tokens"):
            if getattr(self, name) < 1:
                raise ModelFileError(f"model has {getattr(self, name)} {name}, must be >= 1")
        if self.heads % self.kv_heads:
            raise ModelFileError(
                f"model has {self.heads} heads, expected a multiple of its {self.kv_heads} kv heads"
            )
        if self.head_dim % 2:
            raise ModelFileError(f"model has a head_dim of {self.head_dim}, must be even")

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values, all layers, that one token adds to a cache."""
        return 2 * self.layers * self.kv_heads * self.head_dim * np.dtype(np.float32).itemsize
