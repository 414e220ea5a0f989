"""The reference model as an engine needs it: weights, tokenizer and namespace. Reads one file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hearthkv.core.namespace import ModelNamespace
from hearthkv.demo.decoder import Decoder
from hearthkv.demo.gguf_file import GgufFile
from hearthkv.demo.model_package import MODEL_NAME, MODEL_REVISION
from hearthkv.demo.model_shape import ModelShape
from hearthkv.demo.model_weights import ModelWeights
from hearthkv.demo.tokenizer import ChatTokenizer

ENGINE = "hearthkv-demo/1"
"""Names whatever this engine may change about its blocks; raise it with every such change."""


@dataclass(frozen=True, slots=True)
class Model:
    """One model, ready to run."""

    name: str
    decoder: Decoder
    tokenizer: ChatTokenizer
    namespace: ModelNamespace

    @classmethod
    def load(cls, path: Path, *, block_size: int, threads: int) -> Self:
        """
        Load the model that a GGUF file holds. Takes seconds and some hundred MB.

        Raises:
            ModelFileError: If the file is not a model that the decoder can run.
        """
        with GgufFile(path) as file:
            weights = ModelWeights.from_gguf(file)
            tokenizer = ChatTokenizer.from_gguf(file)
        namespace = namespace_of(weights.shape, block_size)
        return cls(MODEL_NAME, Decoder(weights, threads), tokenizer, namespace)


def namespace_of(shape: ModelShape, block_size: int) -> ModelNamespace:
    """Return the namespace of the blocks that this engine makes of this model."""
    return ModelNamespace(
        model=MODEL_NAME,
        revision=MODEL_REVISION,
        dtype="float32",
        layers=shape.layers,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        block_size=block_size,
        engine=ENGINE,
    )
