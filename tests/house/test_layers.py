"""Imports point down only: the contracts of pyproject.toml are kept, and known to break."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.house.conftest import Plant
from tests.house.tree import PRODUCT_PACKAGES, Tree


def broken_contracts(root: Path) -> str:
    """What import-linter says about the tree at `root`; empty if all contracts are kept."""
    finished = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--no-logo"],
        cwd=root,
        capture_output=True,
        check=False,
        text=True,
    )
    return "" if finished.returncode == 0 else finished.stdout + finished.stderr


def homeless(tree: Tree) -> list[str]:
    """Modules that no layer names, neither themselves nor by their package."""
    contracts = tomllib.loads(tree.read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    named = {name.strip(" ()") for layer in layers for name in layer.split("|")}
    return [
        f"{module.name} has no place in the layers of pyproject.toml"
        for module in tree.product
        if not any(f"{module.name}.".startswith(f"{name}.") for name in named)
        and module.name not in PRODUCT_PACKAGES
    ]


@pytest.fixture
def copy(repository: Tree, tmp_path: Path) -> Path:
    """A copy of all that the layers speak of, to break."""
    for path in repository.paths:
        if path.parts[0] in PRODUCT_PACKAGES or str(path) == "pyproject.toml":
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(repository.root / path, tmp_path / path)
    return tmp_path


def test_imports_point_down_only(repository: Tree):
    assert broken_contracts(repository.root) == ""


def test_every_module_has_a_place_in_the_layers(repository: Tree):
    assert homeless(repository) == []


@pytest.mark.parametrize(
    ("intruder", "line"),
    [
        ("router/intruder.py", "import cachenode"),
        ("cachenode/intruder.py", "import router"),
        ("cachenode/intruder.py", "def late():\n    from hearthkv import cli"),
        ("hearthkv/demo/intruder.py", "import hearthkv.cli"),
        ("hearthkv/client/intruder.py", "import router"),
        ("hearthkv/codec/intruder.py", "import hearthkv.client"),
        ("hearthkv/core/intruder.py", "import hearthkv.v1"),
        ("hearthkv/core/intruder.py", "from hearthkv import telemetry"),
        ("hearthkv/core/intruder.py", "import asyncio"),
        ("hearthkv/core/intruder.py", "from redis import Redis"),
    ],
)
def test_an_import_up_or_sideways_is_caught(copy: Path, intruder: str, line: str):
    (copy / intruder).write_text(line + "\n")
    assert f"{intruder.removesuffix('.py').replace('/', '.')} -> " in broken_contracts(copy)


def test_the_cli_may_import_the_demo(copy: Path):
    (copy / "hearthkv/cli/guest.py").write_text("import hearthkv.demo\n")
    assert broken_contracts(copy) == ""


def test_a_module_outside_the_layers_is_found(plant: Plant, repository: Tree):
    tree = plant(
        {
            "pyproject.toml": repository.read("pyproject.toml"),
            "hearthkv/__init__.py": "",
            "hearthkv/utils.py": "",
            "hearthkv/core/tier.py": "",
            "router/ring.py": "",
        }
    )
    assert homeless(tree) == ["hearthkv.utils has no place in the layers of pyproject.toml"]
