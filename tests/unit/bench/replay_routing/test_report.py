"""The results of routing recorded traffic."""

import json
from itertools import product

from rich.console import Console

from bench.replay_routing.contenders import CONTENDERS, OURS
from bench.replay_routing.play import Case, Score
from bench.replay_routing.report import CAPACITY_PERCENTS, NODE_COUNTS, draw, table_of, to_json

SCORES = [
    Score(trace, case, 80.0 + case.node_count, 1.25, 5 * (case.contender == OURS), 3.5, {"home": 1})
    for trace in ("agents", "chat")
    for case in (Case(*each) for each in product(CONTENDERS, NODE_COUNTS, CAPACITY_PERCENTS))
]


def test_the_table_has_a_row_for_each_router_and_the_seed():
    console = Console(width=110)
    with console.capture() as capture:
        console.print(table_of(SCORES, seed=7))
    lines = capture.get().splitlines()
    assert any("seed 7" in line for line in lines)
    rows = [line.split()[-3:] for line in lines if line.split()[-7:-6] == [OURS]]
    assert rows == [["84.0", "1.25", "3.5"], ["88.0", "1.25", "3.5"]] * 2
    assert [line.split()[-1] for line in lines if "round robin" in line] == ["-"] * 4


def test_json_has_the_figures_of_every_case():
    report = json.loads(json.dumps(to_json(SCORES, seed=7, session_count=120)))
    assert (report["seed"], report["session_count"]) == (7, 120)
    assert len(report["scores"]) == len(SCORES)
    assert report["scores"][0] == {
        "trace": "agents",
        "router": "round robin",
        "node_count": 4,
        "capacity_percent": 10,
        "token_hit_percent": 84.0,
        "max_by_mean_computed_tokens": 1.25,
        "pulled_blocks": 0,
        "pulled_percent": 3.5,
        "turns_by_reason": {"home": 1},
    }


def test_the_picture_is_a_png(tmp_path):
    draw(SCORES, tmp_path / "routing.png")
    assert (tmp_path / "routing.png").read_bytes().startswith(b"\x89PNG")
