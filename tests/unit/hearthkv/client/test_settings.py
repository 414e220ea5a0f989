"""Tests of hearthkv/client/settings.py."""

import math
from dataclasses import fields

import pytest

from hearthkv.client.settings import ClientSettings
from hearthkv.core.errors import SettingsError


def test_the_usual_settings_are_possible():
    assert ClientSettings().route_s < ClientSettings().read_s


@pytest.mark.parametrize("name", [field.name for field in fields(ClientSettings)])
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan])
def test_an_impossible_value_is_refused_by_name(name: str, value: float):
    with pytest.raises(SettingsError, match=f"^{name} is {value}, must be > 0 and finite$"):
        ClientSettings(**{name: value})


def test_the_longest_cooldown_is_not_under_the_first():
    with pytest.raises(SettingsError, match=r"cooldown_s_max is 1, must be >= cooldown_s, .* is 2"):
        ClientSettings(cooldown_s=2, cooldown_s_max=1)
