"""A tree of source files, as the rules of the house see it: texts, and parsed modules."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
PRODUCT_PACKAGES = ("hearthkv", "router", "cachenode", "gateway")


@dataclass(frozen=True)
class Module:
    """One Python file."""

    path: PurePosixPath  # relative to the tree's root
    text: str

    @cached_property
    def name(self) -> str:
        """The dotted name by which it is imported."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def syntax(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @cached_property
    def docstring(self) -> str:
        return ast.get_docstring(self.syntax) or ""

    @cached_property
    def is_declared_pure(self) -> bool:
        """Whether the first paragraph of the docstring has the word Pure, capital and all."""
        summary = self.docstring.split("\n\n")[0]
        return any(word.strip(".,:;") == "Pure" for word in summary.split())

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """
        What it imports anywhere, as (line, dotted name).

        `from a import b` is given as `a.b`: whether `b` is a module is not known here.
        """
        return [found for node in ast.walk(self.syntax) for found in self._imported_by(node)]

    def _imported_by(self, node: ast.AST) -> Iterator[tuple[int, str]]:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                home = self.path.parent.parts
                anchor = home[: len(home) - node.level + 1]
                base = ".".join((*anchor, base) if base else anchor)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


@dataclass(frozen=True)
class Tree:
    """The files of one root folder."""

    root: Path
    paths: list[PurePosixPath] = field(repr=False)

    @classmethod
    def of_repository(cls, root: Path = ROOT) -> "Tree":
        """What git tracks or would track; all but hidden and build folders where git can't say."""
        listing = subprocess.run(
            ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            check=False,
            text=True,
        )
        if listing.returncode != 0 or not (root / ".git").exists():
            return cls.of_folder(root)
        names = sorted({name for name in listing.stdout.split("\0") if name})
        return cls(root, [PurePosixPath(name) for name in names if (root / name).is_file()])

    @classmethod
    def of_folder(cls, root: Path) -> "Tree":
        """Every file under `root`, but for what tools leave behind."""
        left_behind = {".git", ".venv", "__pycache__", "build", "dist"}
        found = (path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file())
        return cls(root, [PurePosixPath(p) for p in found if not left_behind & set(p.parts)])

    def read(self, path: PurePosixPath | str) -> str:
        """The text of a file; what is not UTF-8 in it is replaced."""
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def has(self, path: str) -> bool:
        return PurePosixPath(path) in self.paths

    @cached_property
    def python(self) -> list[Module]:
        """Every Python file that a person wrote."""
        return [
            Module(path, self.read(path))
            for path in self.paths
            if path.suffix == ".py" and not is_generated(path)
        ]

    @cached_property
    def product(self) -> list[Module]:
        """The Python files that the wheel carries, generated ones left out."""
        return [module for module in self.python if module.path.parts[0] in PRODUCT_PACKAGES]


def is_generated(path: PurePosixPath) -> bool:
    """Whether `make proto` writes this file."""
    return "_pb2" in path.name


def names_module(imported: str, module: str) -> bool:
    """Whether an imported dotted name is `module`, lies in it, or comes out of it."""
    return imported == module or imported.startswith(f"{module}.")
