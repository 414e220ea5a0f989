"""bench/routing/chart.py draws a picture."""

from pathlib import Path

from bench.routing import chart
from tests.unit.bench.routing.panels import row


def test_a_picture_is_written(tmp_path: Path):
    rows = [row(nodes, tokens) for nodes in (4, 64) for tokens in (1_000, 8_000)]
    chart.draw(rows, tmp_path / "routing.png")
    assert (tmp_path / "routing.png").read_bytes().startswith(b"\x89PNG")
