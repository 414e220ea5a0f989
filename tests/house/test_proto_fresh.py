"""The generated modules are what `make proto` writes today, and the runtime's floor fits them."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.house.tree import Tree, is_generated

GENERATED = Path("hearthkv/v1")
GENCODE_VERSION = re.compile(r"^# Protobuf Python Version: (\S+)$", re.MULTILINE)


def stale(root: Path, fresh: Path) -> list[str]:
    """Generated files under `root` that differ from the same under `fresh`, or are on one side."""
    ours, theirs = contents(root / GENERATED), contents(fresh / GENERATED)
    return sorted(name for name in ours | theirs if ours.get(name) != theirs.get(name))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def fresh(repository: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make proto` writes now, elsewhere."""
    out = tmp_path_factory.mktemp("fresh")
    script = repository.root / "tools" / "gen_proto.py"
    subprocess.run([sys.executable, script, "--out", out], check=True)
    return out


def test_the_generated_modules_are_fresh(repository: Tree, fresh: Path):
    assert stale(repository.root, fresh) == [], "run `make proto` and commit what it writes"


def test_a_contract_without_a_service_gets_no_stubs_for_calls(repository: Tree, fresh: Path):
    contracts = (repository.root / "proto" / GENERATED).glob("*.proto")
    with_service = {path.stem for path in contracts if "\nservice " in path.read_text()}
    names = contents(fresh / GENERATED)
    assert {name[:-12] for name in names if name.endswith("_pb2_grpc.py")} == with_service


def test_an_edited_generated_file_is_found(fresh: Path, tmp_path: Path):
    folder = tmp_path / GENERATED
    folder.mkdir(parents=True)
    for name, content in contents(fresh / GENERATED).items():
        (folder / name).write_bytes(content)
    (folder / "router_pb2.py").write_text("# edited\n")
    (folder / "left_over_pb2.py").write_text("# left over\n")
    (folder / "block_pb2.pyi").unlink()

    assert stale(tmp_path, fresh) == ["block_pb2.pyi", "left_over_pb2.py", "router_pb2.py"]


def test_the_floor_of_the_runtime_is_the_pin_of_the_generator(repository: Tree):
    project = tomllib.loads(repository.read("pyproject.toml"))
    (pin,) = (
        entry.partition("==")[2]
        for entry in project["dependency-groups"]["dev"]
        if entry.startswith("grpcio-tools")
    )
    gencode = {
        match[1]
        for path in repository.paths
        if is_generated(path) and (match := GENCODE_VERSION.search(repository.read(path)))
    }
    assert {f"grpcio>={pin}", *(f"protobuf>={version}" for version in gencode)} <= set(
        project["project"]["dependencies"]
    )
