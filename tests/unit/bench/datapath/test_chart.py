"""The chart is a picture."""

from pathlib import Path

from bench.datapath import chart
from tests.unit.bench.datapath.panels import panel, row


def test_a_chart_is_a_png_also_where_a_row_is_missing(tmp_path: Path):
    panels = [panel(row("HearthKV read", 0.5), row("get", 1.0)), panel(row("get", 1.0))]
    chart.draw(panels, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
