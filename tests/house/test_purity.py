"""What says that it is pure is pure, and what must be pure says so."""

import tomllib
from fnmatch import fnmatch

import pytest

from tests.house.conftest import Plant
from tests.house.tree import ROOT, Module, Tree, names_module

# Where decisions are made, by the plan of the house. A module that is not there yet is no fault.
PURE_FILES = (
    "hearthkv/core/*.py",
    "router/membership.py",
    "router/ring.py",
    "router/prefix_index.py",
    "router/sessions.py",
    "router/placement.py",
    "cachenode/catalog.py",
    "cachenode/tiering.py",
    "cachenode/prefetch.py",
    "cachenode/slab_format.py",
    "cachenode/eviction/*.py",
    "gateway/conversation.py",
)
NOT_PURE = {
    "*/__init__.py": "names what the folder holds, and does nothing",
    "hearthkv/core/clock.py": "is the one door to the system's clock",
}

# Turning messages into core types is a pure act, and the codec's alone.
KNOWS_THE_WIRE = "hearthkv/codec/*.py"
WIRE = ("google", "hearthkv.codec", "hearthkv.v1")


def forbidden_imports() -> tuple[str, ...]:
    """The list of the purity contract, which import-linter reads too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (purity,) = (contract for contract in contracts if contract["id"] == "purity")
    return tuple(purity["forbidden_modules"])


FORBIDDEN = forbidden_imports()


def undeclared(tree: Tree) -> list[str]:
    return [
        f"{module.path} must be pure, and its docstring does not say `Pure.`"
        for module in tree.product
        if any(fnmatch(str(module.path), pattern) for pattern in PURE_FILES)
        and not any(fnmatch(str(module.path), pattern) for pattern in NOT_PURE)
        and not module.is_declared_pure
    ]


def impure(tree: Tree) -> list[str]:
    """Pure modules that import I/O, or a module of ours that does not say that it is pure."""
    ours = {module.name: module for module in tree.product}
    return [
        f"{module.path}:{line} is pure and imports {name}"
        for module in tree.product
        if module.is_declared_pure
        for line, name in module.imports
        if any(names_module(name, kept) for kept in forbidden_to(module))
        or not is_pure_source(module, name, ours)
    ]


def forbidden_to(module: Module) -> set[str]:
    return set(FORBIDDEN) - set(WIRE if fnmatch(str(module.path), KNOWS_THE_WIRE) else ())


def is_pure_source(importer: Module, name: str, ours: dict[str, Module]) -> bool:
    """Whether what `name` is taken from is foreign, the importer itself, or declared pure."""
    parts = name.split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    source = next((ours[prefix] for prefix in prefixes if prefix in ours), None)
    if source is None or source is importer or names_module(name, "hearthkv.v1"):
        return True
    # A package that gathers its own pure modules is as pure as they are.
    is_own_package = source.path.name == "__init__.py" and importer.name.startswith(source.name)
    return source.is_declared_pure or is_own_package


def test_what_must_be_pure_says_so(repository: Tree):
    assert undeclared(repository) == []


def test_what_says_that_it_is_pure_is_pure(repository: Tree):
    assert impure(repository) == []


def test_this_repository_has_pure_modules(repository: Tree):
    assert any(module.is_declared_pure for module in repository.product)


def test_silence_about_purity_is_found(plant: Plant):
    tree = plant(
        {
            "router/placement.py": '"""Choose a node. Not pure at all."""\n',
            "router/sessions.py": '"""\nSessions. Pure: no clock.\n\nMore.\n"""\n',
            "router/ring.py": '"""The ring.\n\nPure is said too late.\n"""\n',
            "router/server.py": '"""The server."""\n',
        }
    )
    assert [text.split()[0] for text in undeclared(tree)] == [
        "router/placement.py",
        "router/ring.py",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "import asyncio",
        "import os.path",
        "from time import monotonic",
        "def f():\n    import random",
        "import logging",
        "from google.protobuf import message",
        "import grpc.aio",
        "from hearthkv.v1 import block_pb2",
        "from hearthkv import codec",
        "from router import server",
        "from router.server import serve",
        "from .server import serve",
    ],
)
def test_an_impure_import_is_found(plant: Plant, line: str):
    tree = plant(
        {
            "router/placement.py": f'"""Choose a node. Pure."""\n{line}\n',
            "router/server.py": '"""The server."""\n',
            "router/__init__.py": '"""The router."""\n',
        }
    )
    assert len(impure(tree)) == 1


@pytest.mark.parametrize(
    "line",
    ["import math", "from router.ring import owner", "from . import ring", "import hashlib, json"],
)
def test_a_pure_import_is_fine(plant: Plant, line: str):
    tree = plant(
        {
            "router/placement.py": f'"""Choose a node. Pure."""\n{line}\n',
            "router/ring.py": '"""The ring. Pure."""\n',
            "router/__init__.py": '"""The router."""\n',
        }
    )
    assert impure(tree) == []


def test_the_codec_may_know_messages_and_nothing_else(plant: Plant):
    tree = plant(
        {
            "hearthkv/v1/__init__.py": '"""Generated."""\n',
            "hearthkv/codec/block.py": (
                '"""Blocks. Pure."""\nfrom hearthkv.v1 import block_pb2\nimport grpc\n'
            ),
        }
    )
    assert impure(tree) == ["hearthkv/codec/block.py:3 is pure and imports grpc"]
