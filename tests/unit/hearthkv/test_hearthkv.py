"""Tests of hearthkv/__init__.py."""

import importlib.metadata
import subprocess
import sys

import pytest

import hearthkv
from hearthkv.client.kv import HearthKV, connect


def test_every_public_name_is_there():
    assert all(getattr(hearthkv, name) is not None for name in hearthkv.__all__)
    assert set(hearthkv.__all__) <= set(dir(hearthkv))
    assert set(hearthkv._HOME_OF) == set(hearthkv.__all__) - {"__version__"}


def test_a_name_is_that_of_its_module():
    assert hearthkv.connect is connect
    assert hearthkv.HearthKV is HearthKV


def test_an_unknown_name_is_no_attribute():
    with pytest.raises(AttributeError, match="module 'hearthkv' has no attribute 'conect'"):
        hearthkv.conect  # noqa: B018


def test_the_version_is_that_of_the_installed_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hearthkv, "version", lambda name: f"{name} 1.2.3")
    assert hearthkv.__version__ == "hearthkv 1.2.3"


def test_a_source_tree_has_no_version(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(hearthkv, "version", missing)
    assert hearthkv.__version__ == "0+unknown"


def test_the_core_loads_neither_grpc_nor_the_client():
    script = (
        "import sys, hearthkv, hearthkv.core.routing\n"
        "loaded = [n for n in sys.modules if n.split('.')[0] == 'grpc' or '.client' in n]\n"
        "sys.exit(', '.join(loaded) or 0)"
    )
    finished = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert finished.returncode == 0, finished.stderr.decode()
