"""router/settings.py: impossible values are named before a socket opens."""

import math

import pytest

from hearthkv.core.errors import SettingsError
from router.settings import RouterSettings


def test_the_defaults_stand_and_listen_on_this_machine_only():
    settings = RouterSettings()
    assert settings.listen == "127.0.0.1:7400"
    assert settings.metrics_host == "127.0.0.1"
    assert (settings.reuse_min_fraction, settings.reuse_min_gain_blocks) == (0.5, 32)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("log_level", "loud", "log_level is 'loud', must be one of debug, info, warning, error"),
        ("metrics_port", 65_536, "metrics_port is 65536, must be in -1..65535"),
        ("metrics_port", -2, "metrics_port is -2, must be in -1..65535"),
        ("lease_s", 0.0, "lease_s is 0.0, must be > 0"),
        ("lease_s", math.nan, "lease_s is nan, must be > 0"),
        ("reuse_min_fraction", 0.0, "reuse_min_fraction is 0.0, must be in (0, 1]"),
        ("reuse_min_fraction", 1.1, "reuse_min_fraction is 1.1, must be in (0, 1]"),
        ("settled_fraction", 0.0, "settled_fraction is 0.0, must be in (0, 1]"),
        ("prefill_tokens_per_s", 0.0, "prefill_tokens_per_s is 0.0, must be > 0"),
        ("spill_wait_s", math.inf, "spill_wait_s is inf, must be > 0"),
        ("copy_cost", -1.0, "copy_cost is -1.0, must be >= 0"),
        ("room_min_tokens", 0, "room_min_tokens is 0, must be >= 1"),
        ("reuse_min_gain_blocks", 0, "reuse_min_gain_blocks is 0, must be >= 1"),
        ("sessions_max", 0, "sessions_max is 0, must be >= 1"),
        ("index_keys_max", 0, "index_keys_max is 0, must be >= 1"),
        ("nodes_max", 0, "nodes_max is 0, must be >= 1"),
        ("drain_s", -1.0, "drain_s is -1.0, must be >= 0"),
    ],
)
def test_an_impossible_value_is_named_with_what_is_allowed(field, value, text):
    with pytest.raises(SettingsError) as caught:
        RouterSettings(**{field: value})
    assert str(caught.value) == text
