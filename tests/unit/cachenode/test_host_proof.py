"""Tests of `cachenode.host_proof`: who can read the secret, and where it does not appear."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from cachenode.host_proof import HostProof, proof_in_private_folder
from hearthkv.core.direct_path import PROOF_BYTES, PROOF_NAME
from hearthkv.core.errors import StaleProofError, StartupError


def secret_of(proof: HostProof) -> bytes:
    return Path(proof.path).read_bytes()


def mode_of(path: str | Path) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def names_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def test_what_the_file_holds_opens_the_node(tmp_path: Path):
    proof = HostProof(tmp_path / "proof")
    assert len(secret_of(proof)) == PROOF_BYTES
    proof.check(secret_of(proof))


def test_only_the_owner_may_read_it(tmp_path: Path):
    umask = os.umask(0)
    try:
        proof = HostProof(tmp_path / "ssd" / "proof")
    finally:
        os.umask(umask)
    assert mode_of(proof.path) == 0o600
    assert mode_of(Path(proof.path).parent) == 0o700


def test_a_folder_that_others_could_read_is_closed(tmp_path: Path):
    folder = tmp_path / "proof"
    folder.mkdir(mode=0o755)
    proof = HostProof(folder)
    assert mode_of(folder) == 0o700
    assert mode_of(proof.path) == 0o600


@pytest.mark.parametrize("shown", [b"", b"x" * PROOF_BYTES, b"x"], ids=["none", "other", "short"])
def test_anything_else_is_stale(tmp_path: Path, shown: bytes):
    proof = HostProof(tmp_path)
    with pytest.raises(StaleProofError, match=f"proof of {len(shown)} bytes is not that of"):
        proof.check(shown)


def test_every_start_has_another_proof(tmp_path: Path):
    first = HostProof(tmp_path)
    shown = secret_of(first)
    second = HostProof(tmp_path)
    assert second.path == first.path
    with pytest.raises(StaleProofError):
        second.check(shown)


def test_what_a_killed_node_left_is_replaced(tmp_path: Path):
    (tmp_path / PROOF_NAME).write_bytes(b"old")
    (tmp_path / f"{PROOF_NAME}.part").write_bytes(b"half")
    proof = HostProof(tmp_path)
    proof.check(secret_of(proof))
    assert names_in(tmp_path) == [PROOF_NAME]


def test_the_path_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert HostProof(Path("ssd/proof")).path == str(tmp_path / "ssd" / "proof" / PROOF_NAME)


def test_a_clean_end_leaves_nothing(tmp_path: Path):
    proof = HostProof(tmp_path / "proof")
    proof.remove()
    assert not (tmp_path / "proof").exists()
    proof.remove()


def test_the_end_leaves_what_is_not_its_own(tmp_path: Path):
    proof = HostProof(tmp_path)
    (tmp_path / "other").touch()
    proof.remove()
    assert names_in(tmp_path) == ["other"]


def test_the_secret_is_in_no_text(tmp_path: Path):
    proof = HostProof(tmp_path)
    secret = secret_of(proof)
    with pytest.raises(StaleProofError) as refused:
        proof.check(secret[:-1])
    for text in (repr(proof), str(refused.value), repr(refused.value)):
        assert secret.hex() not in text
        assert repr(secret)[2:-1] not in text


def test_a_link_is_not_followed(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "proof").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StartupError, match="host proof can't be kept in"):
        HostProof(tmp_path / "proof")
    assert names_in(tmp_path / "elsewhere") == []


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(StartupError, match="belongs to another user"):
        HostProof(tmp_path)
    assert names_in(tmp_path) == []


def test_a_file_in_the_way_is_told(tmp_path: Path):
    (tmp_path / "proof").touch()
    with pytest.raises(StartupError, match="or switch off direct_path"):
        HostProof(tmp_path / "proof")


def test_a_node_without_a_folder_has_a_private_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    proof = proof_in_private_folder()
    folder = Path(proof.path).parent
    assert folder.parent == tmp_path
    assert mode_of(folder) == 0o700
    proof.remove()
    assert names_in(tmp_path) == []


def test_no_room_for_a_private_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(StartupError, match="gone"):
        proof_in_private_folder()
