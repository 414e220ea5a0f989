"""
Replay recorded traffic against the eviction policies: `python -m bench.replay`.

Prints a table of token hit percent by capacity, writes `replay.json` and `replay.png`. The
footprint, to which capacities refer, is the number of different blocks in all prompts of a trace.
"""

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console

from bench.replay.contenders import Score, contenders_on, score
from bench.replay.report import draw, table_of, to_json
from bench.replay.traces import NAMES, Arrivals, Trace, is_there, read

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"
WIDTH_MIN = 90  # columns of a table that goes into a file


def main() -> int:
    """Run the bench."""
    given = _arguments()
    arrivals = Arrivals(given.seed, given.sessions)
    folder = given.traces or TRACES
    traces = [read(name, folder, arrivals) for name in NAMES if is_there(name, folder)]
    if not traces:
        # The traces do not come with the repository: only who named a folder expects them.
        return 0 if given.traces is None else 1
    console = Console()
    scores = _scores(traces)
    if not console.is_terminal:
        console.width = max(console.width, WIDTH_MIN)
    console.print(table_of(scores, given.seed))
    given.output.mkdir(parents=True, exist_ok=True)
    draw(scores, given.output / "replay.png")
    report = to_json(scores, given.seed, given.sessions)
    (given.output / "replay.json").write_text(json.dumps(report, indent=2) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.replay", description=__doc__)
    parser.add_argument("--traces", type=Path, help=f"default: {TRACES}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=120)
    parser.add_argument("--output", type=Path, default=Path("out"))
    return parser.parse_args()


def _scores(traces: list[Trace]) -> list[Score]:
    """Play every contender on every trace, on all processors."""
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        playing = [
            processes.submit(score, trace, contender)
            for trace in traces
            for contender in contenders_on(trace)
        ]
        return [each.result() for each in playing]


if __name__ == "__main__":
    sys.exit(main())
