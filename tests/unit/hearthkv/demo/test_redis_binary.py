"""A Redis-compatible server is found where one is, and asked for where none is."""

from pathlib import Path

import pytest

from hearthkv.core.errors import StartupError
from hearthkv.demo.redis_binary import find_redis_server


def executable(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_redis_comes_before_valkey(tmp_path: Path):
    executable(tmp_path / "valkey-server")
    redis = executable(tmp_path / "redis-server")
    assert find_redis_server(str(tmp_path)) == redis


def test_valkey_will_do(tmp_path: Path):
    valkey = executable(tmp_path / "valkey-server")
    assert find_redis_server(str(tmp_path)) == valkey


def test_the_package_will_do_where_there_is_none(tmp_path: Path):
    assert find_redis_server(str(tmp_path)).name == "valkey-server"


@pytest.mark.parametrize("package", ["no_such_package", "json"])
def test_where_there_is_none_at_all_the_error_says_what_to_install(tmp_path: Path, package: str):
    with pytest.raises(StartupError, match=f"install Redis, or run `pip install {package}`"):
        find_redis_server(str(tmp_path), package)
