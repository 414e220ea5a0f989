"""Tests of `cachenode.settings`."""

import pytest

from cachenode.settings import CacheNodeSettings
from hearthkv.core.errors import SettingsError


def test_the_defaults_are_possible_and_stay_on_this_machine():
    settings = CacheNodeSettings()
    assert settings.listen.startswith("127.0.0.1:")
    assert settings.metrics_host == "127.0.0.1"


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("node_id", "a b", "node_id is 'a b', must be 1 to 128"),
        ("routers", ["a:1", "foo"], "one of routers: address is 'foo', must be host:port"),
        ("routers", ["unix:/a"], "one of routers: address is 'unix:/a', must be host:port"),
        ("weight", 0.0, "weight is 0.0, must be > 0"),
        ("weight", float("nan"), "weight is nan, must be > 0"),
        ("store_timeout_s", float("inf"), "store_timeout_s is inf, must be > 0"),
        ("calls_max", 0, "calls_max is 0, must be >= 1"),
        ("read_memory_mb", 0, "read_memory_mb is 0, must be >= 1"),
        ("write_memory_mb", 0, "write_memory_mb is 0, must be >= 1"),
        ("pulls_max", 0, "pulls_max is 0, must be >= 1"),
        ("pull_memory_mb", 0, "pull_memory_mb is 0, must be >= 1"),
        ("pull_stall_s", 0.0, "pull_stall_s is 0.0, must be > 0"),
        ("pull_s", 0.0, "pull_s is 0.0, must be > 0"),
        ("drain_grace_s", -1.0, "drain_grace_s is -1.0, must be >= 0"),
        ("drain_s", -1.0, "drain_s is -1.0, must be >= 0"),
        ("metrics_port", 65536, "metrics_port is 65536, must be in -1..65535"),
        ("log_level", "loud", "log_level is 'loud', must be one of debug"),
    ],
)
def test_an_impossible_value_is_refused_by_name(field: str, value: object, text: str):
    with pytest.raises(SettingsError, match=text):
        CacheNodeSettings(**{field: value})
