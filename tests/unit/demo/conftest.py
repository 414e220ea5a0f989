"""The models that the demo's tests share: a tiny random one, and the real one."""

from pathlib import Path

import pytest

from hearthkv.core.errors import ModelFileError
from hearthkv.demo.gguf_file import GgufFile
from hearthkv.demo.model_package import find_model_file
from hearthkv.demo.model_weights import ModelWeights
from tests.tiny_model import TinyModel


@pytest.fixture(scope="session")
def tiny_model() -> TinyModel:
    return TinyModel.random(seed=7)


@pytest.fixture(scope="session")
def tiny_weights(tiny_model: TinyModel, tmp_path_factory: pytest.TempPathFactory) -> ModelWeights:
    path = tiny_model.write(tmp_path_factory.mktemp("model") / "tiny.gguf")
    with GgufFile(path) as file:
        return ModelWeights.from_gguf(file)


@pytest.fixture(scope="session")
def real_model_path() -> Path:
    try:
        return find_model_file()
    except ModelFileError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def real_weights(real_model_path: Path) -> ModelWeights:
    with GgufFile(real_model_path) as file:
        return ModelWeights.from_gguf(file)
