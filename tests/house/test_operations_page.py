"""docs/operations.md names every setting with its default, and every metric with its labels."""

from dataclasses import fields

import pytest

from cachenode import events as cachenode_events
from cachenode.settings import CacheNodeSettings
from hearthkv.client import events as client_events
from hearthkv.client.settings import ClientSettings
from hearthkv.core.kv_cache_settings import KvCacheSettings
from hearthkv.demo import engine_events
from hearthkv.demo.engine_settings import EngineSettings
from router import events as router_events
from router.settings import RouterSettings
from tests.house.tree import Tree

PAGE = "docs/operations.md"
SETTINGS = [KvCacheSettings, CacheNodeSettings, RouterSettings, EngineSettings, ClientSettings]
METRICS = {
    "router": router_events.METRICS,
    "cachenode": cachenode_events.METRICS,
    "engine": engine_events.METRICS,
    "client": client_events.METRICS,
}


def shown(value: object) -> str:
    """A default as the page shows it."""
    if isinstance(value, list | tuple):
        value = ",".join(value)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if text else "empty"


@pytest.mark.parametrize("settings_type", SETTINGS, ids=lambda kind: kind.__name__)
def test_every_setting_is_there_with_its_default(repository: Tree, settings_type):
    page, defaults = repository.read(PAGE), settings_type()
    rows = [f"| `{f.name}` | {shown(getattr(defaults, f.name))} |" for f in fields(settings_type)]
    assert [row for row in rows if row not in page] == []


@pytest.mark.parametrize("process", METRICS)
def test_every_metric_is_there_with_its_labels(repository: Tree, process):
    page = repository.read(PAGE)
    rows = [
        f"| `{spec.name}` | {spec.kind} | {', '.join(f'`{label}`' for label in spec.labels)} |"
        for spec in METRICS[process]
    ]
    assert [row for row in rows if row not in page] == []
