"""The report has every sample, so that other figures can be made of it."""

import json

from bench.datapath.figures import Figure
from bench.datapath.goals import Goal
from bench.datapath.report import to_json
from tests.unit.bench.datapath.panels import panel, row


def test_the_report_has_circumstances_rows_samples_and_ratios():
    goal = Goal("ours", ("floor",), Figure.CPU, 1.2)
    shown = panel(row("ours", 1.5), row("floor", 1.0), unavailable={"peer": "absent"})
    report = json.loads(to_json([shown], [goal], {"machine": "m"}))
    assert report["machine"] == "m"
    (written,) = report["panels"]
    assert [each["name"] for each in written["rows"]] == ["ours", "floor"]
    assert written["rows"][0]["rounds"][0]["moved_bytes"] == 10**9
    assert written["unavailable"] == {"peer": "absent"}
    (verdict,) = written["goals"]
    assert (verdict["ratio"], verdict["is_met"], verdict["counts"]) == (1.5, False, True)
