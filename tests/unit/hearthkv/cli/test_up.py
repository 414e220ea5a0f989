"""`hearthkv up` says how to talk to what it has started."""

import ast
from pathlib import Path

from hearthkv.cli.up import how_to_talk
from hearthkv.demo.cluster_plan import ClusterPlan, lay_out

TEXT = how_to_talk(lay_out(ClusterPlan(nodes=1), Path("/run/x"), [7400, 9400, 7500, 9500, 8000]))


def test_all_addresses_are_there():
    for port in (7400, 9400, 7500, 9500, 8000):
        assert f"127.0.0.1:{port}" in TEXT
    assert "/run/x" in TEXT
    assert "hearthkv status --router 127.0.0.1:7400" in TEXT


def test_the_python_lines_can_be_pasted_as_they_stand():
    ast.parse(TEXT.split("from Python:\n\n")[1].split("\n\n")[0])


def test_the_command_is_named_as_it_was_called():
    layout = lay_out(ClusterPlan(nodes=1), Path("/run/x"), [7400, 9400, 7500, 9500, 8000])
    assert "  .venv/bin/hearthkv status --router" in how_to_talk(layout, ".venv/bin/hearthkv")


def test_the_curl_line_asks_an_engine():
    assert "curl -s http://127.0.0.1:8000/v1/chat/completions" in TEXT
    assert '"cache_hint": "reuse"' in TEXT
