"""
HearthKV: a session's KV cache outlives its requests, and its next turn goes to where it lies.

The client's names are here too, and are imported when they are first used: a router that needs
`hearthkv.core` only does not load the client, nor a client gRPC before it connects.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hearthkv.client.blocking import BlockingHearthKV, BlockingTurn, connect_blocking
    from hearthkv.client.kv import HearthKV, connect
    from hearthkv.client.outcome import Finished, Loaded, MissReason
    from hearthkv.client.settings import ClientSettings
    from hearthkv.client.turn import Turn
    from hearthkv.core.errors import BadInputError, HearthKVError, PeerError
    from hearthkv.core.namespace import ModelNamespace, NamespaceSpec
    from hearthkv.core.routing import CacheHint, PlacementReason, Route
    from hearthkv.core.tier import Tier, TierCounts

    __version__: str

_HOME_OF = {
    "BadInputError": "hearthkv.core.errors",
    "BlockingHearthKV": "hearthkv.client.blocking",
    "BlockingTurn": "hearthkv.client.blocking",
    "CacheHint": "hearthkv.core.routing",
    "ClientSettings": "hearthkv.client.settings",
    "Finished": "hearthkv.client.outcome",
    "HearthKV": "hearthkv.client.kv",
    "HearthKVError": "hearthkv.core.errors",
    "Loaded": "hearthkv.client.outcome",
    "MissReason": "hearthkv.client.outcome",
    "ModelNamespace": "hearthkv.core.namespace",
    "NamespaceSpec": "hearthkv.core.namespace",
    "PeerError": "hearthkv.core.errors",
    "PlacementReason": "hearthkv.core.routing",
    "Route": "hearthkv.core.routing",
    "Tier": "hearthkv.core.tier",
    "TierCounts": "hearthkv.core.tier",
    "Turn": "hearthkv.client.turn",
    "connect": "hearthkv.client.kv",
    "connect_blocking": "hearthkv.client.blocking",
}

__all__ = [
    "BadInputError",
    "BlockingHearthKV",
    "BlockingTurn",
    "CacheHint",
    "ClientSettings",
    "Finished",
    "HearthKV",
    "HearthKVError",
    "Loaded",
    "MissReason",
    "ModelNamespace",
    "NamespaceSpec",
    "PeerError",
    "PlacementReason",
    "Route",
    "Tier",
    "TierCounts",
    "Turn",
    "__version__",
    "connect",
    "connect_blocking",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return _installed_version()
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _installed_version() -> str:
    """Version of the installed package; `0+unknown` in a source tree that is not installed."""
    try:
        return version(__name__)
    except PackageNotFoundError:
        return "0+unknown"
