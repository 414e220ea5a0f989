"""The replay's results."""

import json

from rich.console import Console

from bench.replay.contenders import Score
from bench.replay.report import draw, table_of, to_json

SCORES = [
    Score("chat", "lru", (1.0, 2.0, 3.0, 4.0, 5.0)),
    Score("chat", "optimum", (9.0, 9.0, 9.0, 9.0, 9.0)),
    Score("agents", "optimum", (8.0, 8.0, 8.0, 8.0, 8.0)),
]


def test_the_table_has_a_row_for_each_contender_and_the_seed():
    console = Console(width=90)
    with console.capture() as capture:
        console.print(table_of(SCORES, seed=7))
    text = capture.get()
    assert "seed 7" in text
    assert [line.split()[-1] for line in text.splitlines() if "optimum" in line] == ["9.0", "8.0"]


def test_json_has_the_figures_by_trace_and_contender():
    report = json.loads(json.dumps(to_json(SCORES, seed=7, session_count=120)))
    assert report["token_hit_percents"]["chat"]["lru"] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert (report["seed"], report["session_count"]) == (7, 120)


def test_the_picture_is_a_png(tmp_path):
    draw(SCORES, tmp_path / "replay.png")
    assert (tmp_path / "replay.png").read_bytes().startswith(b"\x89PNG")
