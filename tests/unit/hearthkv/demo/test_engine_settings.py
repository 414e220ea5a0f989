"""Tests of hearthkv/demo/engine_settings.py."""

import pytest

from hearthkv.core.errors import SettingsError
from hearthkv.demo.engine_settings import EngineSettings


def test_the_usual_settings_are_possible():
    settings = EngineSettings()
    assert settings.listen == "127.0.0.1:8000"
    assert (settings.node, settings.routers) == ("", ())


def test_peers_may_be_on_unix_sockets():
    assert EngineSettings(node="unix:/run/node.sock").node == "unix:/run/node.sock"


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        pytest.param({"threads": 0}, "threads is 0, must be >= 1", id="threads"),
        pytest.param({"requests_max": -1}, "requests_max is -1, must be >= 1", id="requests_max"),
        pytest.param(
            {"log_level": "loud"}, "log_level is 'loud', must be one of debug", id="log_level"
        ),
        pytest.param({"listen": "8000"}, "listen is '8000', must be host:port", id="listen"),
        pytest.param({"listen": "a:65536"}, "listen is 'a:65536'", id="listen-port"),
        pytest.param({"node": "here"}, "node has 'here', must be host:port", id="node"),
        pytest.param({"routers": ("a:1", "b")}, "routers has 'b', must be", id="routers"),
    ],
)
def test_an_impossible_setting_is_named(wrong: dict[str, object], text: str):
    with pytest.raises(SettingsError, match=text):
        EngineSettings(**wrong)
