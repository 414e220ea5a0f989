"""
Write the Python messages and stubs of the contract from `proto/`. Run by `make proto`.

Each `.proto` lies where its package says, so what protoc writes for `proto/hearthkv/v1`
falls into `hearthkv/v1`, and its imports need no repair. Files without a service get no
`_pb2_grpc` modules. A second run writes the same bytes.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
PACKAGE_DOCSTRING = (
    '"""Generated messages and stubs of the hearthkv.v1 contract. Never edited."""\n'
)
SERVICE = re.compile(r"^service\s", re.MULTILINE)


def main() -> None:
    """Generate into the repository, or into `--out` for a comparison."""
    parser = argparse.ArgumentParser(description="generate hearthkv/v1 from proto/")
    parser.add_argument("--out", type=Path, default=ROOT, help="folder that gets hearthkv/v1")
    generate(parser.parse_args().out)


def generate(out: Path) -> None:
    """Replace everything generated under `out` by what `proto/` says now."""
    sources = sorted(PROTO.rglob("*.proto"))
    folders = sorted({out / source.relative_to(PROTO).parent for source in sources})
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        remove(folder.glob("*_pb2*.py*"))

    run_protoc(sources, out)

    for source in sources:
        if not SERVICE.search(source.read_text()):
            stem = out / source.relative_to(PROTO).with_suffix("")
            remove(stem.parent.glob(f"{stem.name}_pb2_grpc.py*"))
    for folder in folders:
        (folder / "__init__.py").write_text(PACKAGE_DOCSTRING)


def run_protoc(sources: list[Path], out: Path) -> None:
    """
    Run protoc with the Python, gRPC and type stub plugins.

    The stubs are mypy-protobuf's: they carry the comments of the contract, and make the
    servicers abstract, so that a missing RPC is a type error.
    """
    outputs = [
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet:{out}",
    ]
    names = [str(source.relative_to(PROTO)) for source in sources]
    # The plugins lie beside the interpreter that runs this, whatever PATH says.
    scripts = Path(sys.executable).parent
    plugins = [
        f"--plugin=protoc-gen-{name}={scripts / f'protoc-gen-{name}'}"
        for name in ("mypy", "mypy_grpc")
    ]
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", *plugins, *outputs, *names],
        check=True,
    )


def remove(paths: Iterable[Path]) -> None:
    """Delete files."""
    for path in paths:
        path.unlink()


if __name__ == "__main__":
    main()
