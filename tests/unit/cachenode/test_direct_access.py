"""Tests of `cachenode.direct_access`: what a proof opens, and what is told without one."""

import tempfile
from pathlib import Path

import pytest

from cachenode.direct_access import DirectAccess
from hearthkv.core.direct_path import Attached, Attachment
from hearthkv.core.errors import SettingsError, StaleProofError
from hearthkv.core.session_id import NodeId


def attachment(*urls: str, ssd_dir: str) -> Attachment:
    return Attachment(NodeId("node-a"), 7, urls, ssd_dir, is_direct_io=True)


def proof_of(access: DirectAccess) -> bytes:
    return Path(access.attach(b"").proof_path).read_bytes()


def test_the_proof_opens_the_stores(tmp_path: Path):
    told = attachment("unix:///run/redis.sock", ssd_dir=str(tmp_path / "ssd"))
    with DirectAccess(told) as access:
        assert access.attach(proof_of(access)) == Attached(
            str(tmp_path / "ssd" / "host-proof" / "proof"), told
        )
        access.check(proof_of(access))


def test_without_a_proof_only_its_place_is_told(tmp_path: Path):
    with DirectAccess(attachment(ssd_dir=str(tmp_path))) as access:
        assert access.attach(b"").attachment is None
        with pytest.raises(StaleProofError):
            access.attach(b"x" * 32)
        with pytest.raises(StaleProofError):
            access.check(b"")


def test_every_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    url = "rediss://me:secret@localhost:6380/2?ssl_ca_certs=ca.pem"
    with DirectAccess(attachment(url, ssd_dir="ssd")) as access:
        opened = access.attach(proof_of(access)).attachment
    assert opened is not None
    assert opened.ssd_dir == str(tmp_path / "ssd")
    (told,) = opened.redis_urls
    assert told.startswith("rediss://me:secret@localhost:6380")
    assert str(tmp_path / "ca.pem").replace("/", "%2F") in told


def test_a_node_without_an_ssd_has_a_proof_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with DirectAccess(attachment(ssd_dir="")) as access:
        opened = access.attach(proof_of(access)).attachment
        assert opened is not None
        assert opened.ssd_dir == ""
        assert opened.redis_urls == ()


def test_nothing_is_left_at_the_end(tmp_path: Path):
    with DirectAccess(attachment(ssd_dir=str(tmp_path))):
        assert [entry.name for entry in tmp_path.iterdir()] == ["host-proof"]
    assert list(tmp_path.iterdir()) == []


def test_a_url_that_can_not_be_understood_is_not_shown(tmp_path: Path):
    with pytest.raises(SettingsError) as refused:
        DirectAccess(attachment("redis://:secret@host:port", ssd_dir=str(tmp_path)))
    assert "secret" not in str(refused.value)
