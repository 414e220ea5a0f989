"""The levels of a log that settings may name."""

import pytest

from hearthkv.core.errors import SettingsError
from hearthkv.core.log_level import LOG_LEVELS, check_log_level


@pytest.mark.parametrize("name", LOG_LEVELS)
def test_a_known_level_is_returned(name):
    assert check_log_level(name) == name


@pytest.mark.parametrize("name", ["", "INFO", "trace", "warn"])
def test_another_level_is_refused_and_the_allowed_are_named(name):
    with pytest.raises(SettingsError) as refusal:
        check_log_level(name)
    assert (
        str(refusal.value) == f"log_level is {name!r}, must be one of debug, info, warning, error"
    )
