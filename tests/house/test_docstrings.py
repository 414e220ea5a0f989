"""Every module says what it owns, and all that is public says what it does."""

import ast
from collections.abc import Iterator

from tests.house.conftest import Plant
from tests.house.tree import Tree

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def silent_modules(tree: Tree) -> list[str]:
    return [
        f"{module.path} has no docstring"
        for module in tree.python
        if not module.docstring and module.text.strip()
    ]


def silent_definitions(tree: Tree) -> list[str]:
    return [
        f"{module.path}:{node.lineno} {node.name} has no docstring"
        for module in tree.product
        for node in public_definitions(module.syntax)
        if not ast.get_docstring(node)
    ]


def public_definitions(scope: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """Public classes and functions, and public methods of public classes."""
    for node in scope.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_definitions(node)


def test_every_module_says_what_it_owns(repository: Tree):
    assert silent_modules(repository) == []


def test_everything_public_says_what_it_does(repository: Tree):
    assert silent_definitions(repository) == []


def test_a_silent_module_is_found_and_an_empty_one_is_not(plant: Plant):
    tree = plant({"bench/a.py": "x = 1\n", "tests/__init__.py": "", "router/b.py": '"""B."""\n'})
    assert silent_modules(tree) == ["bench/a.py has no docstring"]


def test_a_silent_function_class_and_method_are_found(plant: Plant):
    text = '''
def f(): ...
class A:
    async def m(self): ...
    def _private(self): ...
class _B:
    def hidden(self): ...
def g():
    """Say so."""
    def inner(): ...
'''
    assert silent_definitions(plant({"router/a.py": text})) == [
        "router/a.py:2 f has no docstring",
        "router/a.py:3 A has no docstring",
        "router/a.py:4 m has no docstring",
    ]
