"""Tests of hearthkv/client/proof_file.py."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hearthkv.client.proof_file import read_proof
from hearthkv.core.direct_path import PROOF_BYTES
from hearthkv.core.errors import DirectPathError

PROOF = bytes(range(PROOF_BYTES))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "proof"
    path.touch(0o600)
    path.write_bytes(PROOF)
    return path


def test_a_proof_is_read(path: Path):
    assert read_proof(str(path), os.geteuid()) == PROOF


def link(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to(path.with_name("real"))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda path: path.unlink(), "can't be read here"),
        (lambda path: path.write_bytes(PROOF + b"x"), "proof is 33 bytes, must be 32"),
        (lambda path: path.write_bytes(PROOF[1:]), "proof is 31 bytes, must be 32"),
        (lambda path: path.chmod(0o640), "mode 640, must be of user"),
        (lambda path: path.chmod(0o604), "mode 604, must be of user"),
        (link, "can't be read here"),
        (pipe, "no plain file"),
        (folder, "no plain file"),
    ],
    ids=["gone", "long", "short", "group", "others", "link", "pipe", "folder"],
)
def test_what_is_not_like_a_proof_is_not_read(
    path: Path, change: Callable[[Path], object], found: str
):
    change(path)
    with pytest.raises(DirectPathError, match=found):
        read_proof(str(path), os.geteuid())


@pytest.mark.parametrize("name", ["id_ed25519", "proof.txt"])
def test_a_file_of_another_name_is_never_read_and_sent(path: Path, name: str):
    other = path.rename(path.with_name(name))
    with pytest.raises(DirectPathError, match="must be /"):
        read_proof(str(other), os.geteuid())


@pytest.mark.parametrize("named", ["", "proof", "./proof", "/a\0/proof"])
def test_a_path_that_is_none_is_refused(named: str):
    with pytest.raises(DirectPathError, match="must be /"):
        read_proof(named, os.geteuid())


def test_a_file_of_another_user_is_not_read(path: Path):
    with pytest.raises(DirectPathError, match="belongs to user"):
        read_proof(str(path), os.geteuid() + 1)
