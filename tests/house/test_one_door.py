"""What reaches out of the process comes in by one door: Redis, files, time, the environment."""

import ast
from dataclasses import dataclass
from fnmatch import fnmatch

import pytest

from tests.house.conftest import Plant
from tests.house.tree import Module, Tree, is_generated, names_module


@dataclass(frozen=True)
class Door:
    """Names that only some files may import, or reach as an attribute."""

    names: tuple[str, ...]
    files: tuple[str, ...]  # patterns of paths


DOORS = {
    "redis": Door(("redis",), ("cachenode/dram_store.py",)),
    "aiofiles": Door(("aiofiles",), ("cachenode/ssd_store.py",)),
    "time": Door(
        ("time", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today"),
        ("hearthkv/core/clock.py",),
    ),
    "environment": Door(
        ("os.environ", "os.environb", "os.getenv", "os.putenv"), ("*/__main__.py",)
    ),
}

# Who may see a message class of the contract, and why.
MESSAGE_READERS = {
    "hearthkv/codec.py": "turns messages into core types and back",
    "hearthkv/codec/*.py": "the same, one file a service",
    "*/service.py": "implements the calls",
    "*/direct_service.py": "implements those of the direct path",
    "*/server.py": "names the services to reflection",
}


def wrong_doors(tree: Tree, door: Door) -> list[str]:
    return [
        f"{module.path}:{line} reaches {name}, which only {' '.join(door.files)} may"
        for module in tree.product
        if not any(fnmatch(str(module.path), pattern) for pattern in door.files)
        for line, name in reached(module)
        if any(names_module(name, kept) for kept in door.names)
    ]


def reached(module: Module) -> list[tuple[int, str]]:
    """Imports, and attributes of what was imported: `(3, "os.environ.get")`."""
    local_names: dict[str, str] = {}
    for node in ast.walk(module.syntax):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                local_names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                local_names[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    attributes = [
        (node.lineno, ".".join((local_names[parts[0]], *parts[1:])))
        for node in ast.walk(module.syntax)
        if isinstance(node, ast.Attribute)
        and (parts := ast.unparse(node).split("."))[0] in local_names
    ]
    return sorted({*module.imports, *attributes})


def message_readers(tree: Tree) -> list[str]:
    return [
        f"{module.path}:{line} imports {name}: messages are for the codec and the services"
        for module in tree.product
        if not any(fnmatch(str(module.path), pattern) for pattern in MESSAGE_READERS)
        for line, name in module.imports
        if names_module(name, "hearthkv.v1") and "_pb2" in {part[-4:] for part in name.split(".")}
    ]


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_everything_comes_in_by_its_door(repository: Tree, door: Door):
    assert wrong_doors(repository, door) == []


def test_messages_stay_with_the_codec_and_the_services(repository: Tree):
    assert message_readers(repository) == []


def test_the_path_of_the_contract_is_no_python_package(repository: Tree):
    assert [path for path in repository.paths if str(path) == "proto/__init__.py"] == []


@pytest.mark.parametrize(
    ("door", "line"),
    [
        ("redis", "import redis.asyncio"),
        ("redis", "from redis import asyncio as aioredis"),
        ("aiofiles", "from aiofiles import os"),
        ("time", "import time"),
        ("time", "from time import monotonic"),
        ("time", "import datetime as dt\nx = dt.datetime.now()"),
        ("time", "from datetime import datetime\nx = datetime.now(tz=None)"),
        ("time", "def f():\n    import time"),
        ("environment", "import os\nx = os.environ['A']"),
        ("environment", "import os\nx = os.environ.get('A')"),
        ("environment", "from os import environ"),
        ("environment", "import os as system\nx = system.getenv('A')"),
    ],
)
def test_a_wrong_door_is_found(plant: Plant, door: str, line: str):
    tree = plant({"router/placement.py": line + "\n"})
    assert wrong_doors(tree, DOORS[door]) != []


@pytest.mark.parametrize(
    ("door", "path", "line"),
    [
        ("redis", "cachenode/dram_store.py", "import redis"),
        ("time", "hearthkv/core/clock.py", "import time"),
        ("time", "router/sessions.py", "from datetime import timedelta"),
        ("time", "router/sessions.py", "from hearthkv.core import clock\nx = clock.time"),
        ("environment", "router/__main__.py", "import os\nx = os.environ"),
        ("environment", "router/server.py", "import os\nx = os.getpid()"),
        ("redis", "bench/peers.py", "import redis"),
    ],
)
def test_the_right_door_is_open(plant: Plant, door: str, path: str, line: str):
    assert wrong_doors(plant({path: line + "\n"}), DOORS[door]) == []


def test_a_message_class_out_of_place_is_found(plant: Plant):
    line = "from hearthkv.v1 import block_pb2\nfrom hearthkv.v1.router_pb2_grpc import RouterStub\n"
    line += "from grpc_health.v1 import health_pb2\n"
    tree = plant(
        {"router/placement.py": line, "router/service.py": line, "hearthkv/codec.py": line}
    )
    (found,) = message_readers(tree)
    assert found.startswith("router/placement.py:1 imports hearthkv.v1.block_pb2: ")


def test_generated_files_are_told_by_their_names():
    tree = Tree.of_repository()
    assert any(is_generated(path) for path in tree.paths)
