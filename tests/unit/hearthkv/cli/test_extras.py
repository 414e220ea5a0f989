"""A missing extra is one line that says how to get it."""

import tomllib
from pathlib import Path

import pytest

from hearthkv.cli.extras import DEMO_PACKAGES, STATUS_PACKAGES, require
from hearthkv.core.errors import StartupError

ROOT = Path(__file__).parents[4]


def test_what_is_installed_is_enough():
    require(DEMO_PACKAGES)
    require(STATUS_PACKAGES)


def test_what_is_missing_is_named_with_the_command_that_brings_it():
    with pytest.raises(StartupError) as caught:
        require(("json", "no_such_one", "no_such_two"))
    assert str(caught.value) == (
        "not installed: no_such_one, no_such_two; run `pip install 'hearthkv[demo]'`"
    )


def test_each_package_is_in_an_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = str(project["optional-dependencies"])
    names = {"grpc_health": "grpcio-health-checking", "grpc_reflection": "grpcio-reflection"}
    for package in DEMO_PACKAGES:
        assert names.get(package, package.replace("_", "-")) in extras
