"""
Replay recorded traffic on several nodes: `python -m bench.replay_routing`.

Prints a table of token hit percent, of the computed tokens of the busiest node by their mean, and
of the tokens that moved between nodes; writes `replay_routing.json` and `replay_routing.png`. The
footprint, to which capacities refer, is the number of different blocks in all prompts of a trace.
"""

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

from rich.console import Console

from bench.replay.__main__ import TRACES
from bench.replay.traces import NAMES, Arrivals, Trace, is_there, read
from bench.replay_routing.contenders import CONTENDERS
from bench.replay_routing.play import Case, Score, score
from bench.replay_routing.report import CAPACITY_PERCENTS, NODE_COUNTS, draw, table_of, to_json

PLAYED = NAMES[:2]
WIDTH_MIN = 105  # columns of a table that goes into a file


def main() -> int:
    """Run the bench."""
    given = _arguments()
    arrivals = Arrivals(given.seed, given.sessions)
    folder = given.traces or TRACES
    traces = [read(name, folder, arrivals) for name in PLAYED if is_there(name, folder)]
    if not traces:
        # The traces do not come with the repository: only who named a folder expects them.
        return 0 if given.traces is None else 1
    scores = _scores(traces)
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH_MIN)
    console.print(table_of(scores, given.seed))
    given.output.mkdir(parents=True, exist_ok=True)
    draw(scores, given.output / "replay_routing.png")
    report = to_json(scores, given.seed, given.sessions)
    (given.output / "replay_routing.json").write_text(json.dumps(report, indent=2) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.replay_routing", description=__doc__)
    parser.add_argument("--traces", type=Path, help=f"default: {TRACES}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=120)
    parser.add_argument("--output", type=Path, default=Path("out"))
    return parser.parse_args()


def _scores(traces: list[Trace]) -> list[Score]:
    """Play every case on every trace, on all processors."""
    cases = [Case(*each) for each in product(CONTENDERS, NODE_COUNTS, CAPACITY_PERCENTS)]
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        playing = [processes.submit(score, trace, case) for trace in traces for case in cases]
        return [each.result() for each in playing]


if __name__ == "__main__":
    sys.exit(main())
