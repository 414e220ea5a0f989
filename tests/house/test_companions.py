"""Every module has a test file of its own, and something that imports it."""

import ast
import tomllib
from collections.abc import Iterable
from fnmatch import fnmatch

from tests.house.conftest import Plant
from tests.house.tree import Module, Tree

# Modules without a test file of the same name, and what tests them instead.
TESTED_ELSEWHERE = {
    "*/__main__.py": "reads the environment and starts; tests/system starts it as a process",
    "*/server.py": "opens and closes sockets; tests/system starts it as a process",
    "*/service.py": "tests/contract calls it over a channel",
    "*/direct_service.py": "tests/contract calls it over a channel",
}

# Modules that nothing here imports, and who uses them instead.
USED_ELSEWHERE = {
    "*/__main__.py": "is started",
    "*/__init__.py": "is imported with every module in its folder",
    "hearthkv/connectors/*.py": "is imported by the engine that it connects",
    "bench/*.py": "is started",
    "tools/*.py": "is started",
    "deploy/*.py": "is started in a container",
}


def untested(tree: Tree) -> list[str]:
    return [
        f"{module.path} has no {path_of_tests(module)}"
        for module in tree.product
        if not matches(module, TESTED_ELSEWHERE)
        and not is_bare_package(module)
        and not tree.has(path_of_tests(module))
    ]


def path_of_tests(module: Module) -> str:
    """Where the tests of a module are: `router/ring.py` has `tests/unit/router/test_ring.py`."""
    name = module.path.parent.name if module.path.name == "__init__.py" else module.path.stem
    return f"tests/unit/{module.path.parent}/test_{name}.py"


def is_bare_package(module: Module) -> bool:
    """Whether this is an `__init__` that defines nothing of its own."""
    defined = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return module.path.name == "__init__.py" and not any(
        isinstance(node, defined) for node in module.syntax.body
    )


def unused(tree: Tree) -> list[str]:
    """Modules that no other module of the tree imports; what only tests import is unused."""
    imported = {
        name
        for module in tree.python
        if module.path.parts[0] != "tests"
        for _, full_name in module.imports
        for name in (full_name, full_name.rpartition(".")[0])
        if name != module.name
    }
    return [
        f"{module.path} is imported by nothing"
        for module in tree.python
        if module.path.parts[0] != "tests"
        and not matches(module, USED_ELSEWHERE)
        and module.name not in imported | entry_points(tree)
    ]


def entry_points(tree: Tree) -> set[str]:
    """Modules that the console scripts of pyproject.toml start."""
    if not tree.has("pyproject.toml"):
        return set()
    scripts = tomllib.loads(tree.read("pyproject.toml"))["project"]["scripts"]
    return {target.split(":")[0] for target in scripts.values()}


def missing_entry_points(tree: Tree) -> list[str]:
    present = {module.name for module in tree.product}
    return [f"{name} is not there to be started" for name in sorted(entry_points(tree) - present)]


def matches(module: Module, patterns: Iterable[str]) -> bool:
    return any(fnmatch(str(module.path), pattern) for pattern in patterns)


def test_every_module_has_a_test_file_of_its_name(repository: Tree):
    assert untested(repository) == []


def test_every_module_is_used(repository: Tree):
    assert unused(repository) == []


def test_every_console_script_has_its_module(repository: Tree):
    assert missing_entry_points(repository) == []


def test_a_module_without_tests_is_found(plant: Plant):
    tree = plant(
        {
            "router/__init__.py": '"""Bare."""\nfrom router.ring import Ring\n',
            "router/ring.py": "",
            "router/placement.py": "",
            "router/server.py": "",
            "cachenode/eviction/__init__.py": "def policy(): ...\n",
            "tests/unit/router/test_placement.py": "",
            "tests/unit/test_ring.py": "",
        }
    )
    assert untested(tree) == [
        "cachenode/eviction/__init__.py has no tests/unit/cachenode/eviction/test_eviction.py",
        "router/ring.py has no tests/unit/router/test_ring.py",
    ]


def test_a_module_that_only_its_test_imports_is_found(plant: Plant):
    tree = plant(
        {
            "pyproject.toml": "[project]\nscripts = { run = 'router.start:main' }\n",
            "router/start.py": "from router import placement\nfrom .sessions import Sessions\n",
            "router/placement.py": "import router.ring as ring\n",
            "router/ring.py": "from router.dead import itself\n",
            "router/sessions.py": "",
            "router/dead.py": "",
            "router/lonely.py": "import router.lonely\n",
            "tests/unit/router/test_lonely.py": "import router.lonely\n",
        }
    )
    assert unused(tree) == ["router/lonely.py is imported by nothing"]


def test_a_console_script_without_its_module_is_found(plant: Plant):
    tree = plant({"pyproject.toml": "[project]\nscripts = { run = 'router.__main__:main' }\n"})
    assert missing_entry_points(tree) == ["router.__main__ is not there to be started"]
