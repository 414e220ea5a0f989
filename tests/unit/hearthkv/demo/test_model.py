"""Tests of hearthkv/demo/model.py."""

from pathlib import Path

import pytest

from hearthkv.core.errors import ModelFileError
from hearthkv.demo.model import Model
from hearthkv.demo.model_package import MODEL_NAME, MODEL_REVISION
from tests.gguf_writer import write_gguf
from tests.unit.hearthkv.demo.engine_kit import write_speaking_model


def test_a_model_knows_its_weights_its_words_and_its_blocks(tmp_path: Path):
    model = Model.load(write_speaking_model(tmp_path / "tiny.gguf"), block_size=32, threads=1)
    cache = model.decoder.new_cache(64)
    assert model.tokenizer.encode("he") == [258]
    assert model.namespace.block_bytes == cache.block_bytes(32) == 8192
    assert (model.name, model.namespace.revision) == (MODEL_NAME, MODEL_REVISION)
    model.decoder.close()


def test_blocks_of_another_size_are_in_another_namespace(tmp_path: Path):
    path = write_speaking_model(tmp_path / "tiny.gguf")
    models = [Model.load(path, block_size=size, threads=1) for size in (16, 32)]
    left, right = (model.namespace.spec.namespace_id for model in models)
    assert left != right
    for model in models:
        model.decoder.close()


def test_a_file_without_a_model_is_refused(tmp_path: Path):
    with pytest.raises(ModelFileError):
        Model.load(write_gguf(tmp_path / "empty.gguf", {}), block_size=16, threads=1)
