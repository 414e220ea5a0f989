"""What the rules of the house are tried on: this repository, and small trees that break them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house.tree import Tree

Plant = Callable[[dict[str, str]], Tree]


@pytest.fixture(scope="session")
def repository() -> Tree:
    """This repository."""
    return Tree.of_repository()


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Makes a tree of the files that it is given."""

    def write(files: dict[str, str]) -> Tree:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Tree.of_folder(tmp_path)

    return write
