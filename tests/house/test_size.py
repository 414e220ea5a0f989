"""Files and functions fit into a reader's head, and the repository into a small clone."""

import ast

from tests.house.conftest import Plant
from tests.house.tree import Tree

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
FILE_BYTES_MAX = 200_000


def long_files(tree: Tree) -> list[str]:
    counts = {module.path: len(module.text.splitlines()) for module in tree.python}
    return [
        f"{path} has {count} lines, {FILE_LINES_MAX} are allowed"
        for path, count in counts.items()
        if count > FILE_LINES_MAX
    ]


def long_functions(tree: Tree) -> list[str]:
    return [
        f"{module.path}:{node.lineno} {node.name} has {count} lines, {FUNCTION_LINES_MAX} allowed"
        for module in tree.python
        for node in ast.walk(module.syntax)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (count := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


def large_files(tree: Tree) -> list[str]:
    sizes = {path: (tree.root / path).stat().st_size for path in tree.paths}
    return [
        f"{path} has {size} bytes, {FILE_BYTES_MAX} are allowed"
        for path, size in sizes.items()
        if size > FILE_BYTES_MAX
    ]


def test_no_file_is_long(repository: Tree):
    assert long_files(repository) == []


def test_no_function_is_long(repository: Tree):
    assert long_functions(repository) == []


def test_no_file_is_large(repository: Tree):
    assert large_files(repository) == []


def test_a_long_file_is_found_and_a_generated_one_is_not(plant: Plant):
    tree = plant({"router/a.py": "x = 1\n" * 401, "router/b_pb2.py": "x = 1\n" * 401})
    assert long_files(tree) == ["router/a.py has 401 lines, 400 are allowed"]


def test_a_file_of_just_the_limit_is_fine(plant: Plant):
    assert long_files(plant({"router/a.py": "x = 1\n" * 400})) == []


def test_a_long_function_is_found(plant: Plant):
    body = "    x = 1\n" * 70
    tree = plant({"router/a.py": f"class A:\n  async def f(self):\n{body}"})
    assert long_functions(tree) == ["router/a.py:2 f has 71 lines, 70 allowed"]


def test_a_large_file_is_found(plant: Plant):
    tree = plant({"docs/picture.svg": "x" * 200_001, "docs/small.svg": "x" * 200_000})
    assert large_files(tree) == ["docs/picture.svg has 200001 bytes, 200000 are allowed"]
