"""Checks that the packages of an extra are installed. Looks them up, imports none."""

import importlib.util
from collections.abc import Sequence

from hearthkv.core.errors import StartupError

STATUS_PACKAGES = ("rich",)

DEMO_PACKAGES = (
    *("aiofiles", "aiohttp", "grpc_health", "grpc_reflection", "jinja2", "matplotlib", "numpy"),
    *("prometheus_client", "redis", "rich", "threadpoolctl", "tokenizers"),
)


def require(packages: Sequence[str]) -> None:
    """
    Return if all packages can be imported.

    Raises:
        StartupError: If one is missing; says how to install it.
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise StartupError(
            f"not installed: {', '.join(missing)}; run `pip install 'hearthkv[demo]'`"
        )
