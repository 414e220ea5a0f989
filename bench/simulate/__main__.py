"""
Fill a router with nodes, sessions and blocks: `python -m bench.simulate`.

Prints a row for each size of cluster, writes `simulate.json` and `simulate.png`. With `--full` the
largest has 1,000 nodes, 100,000 sessions and 10 million blocks, which takes a while and some
gigabytes.
"""

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console

from bench.simulate.report import draw, table_of, to_json
from bench.simulate.scale import Figures, Growth, Scale

SCALES = (Scale(8, 1_000, 100_000), Scale(64, 8_000, 800_000))
FULL_SCALE = Scale(1_000, 100_000, 10_000_000)
WIDTH_MIN = 150  # columns of a table that goes into a file


def main() -> int:
    """Run the bench."""
    given = _arguments()
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH_MIN)
    figures: list[Figures] = []
    for scale in _scales(given):
        print(f"{scale.nodes:,} nodes, {scale.sessions:,} sessions ...", file=sys.stderr)
        figures.append(Growth(scale, given.seed).run())
    console.print(table_of(figures))
    given.output.mkdir(parents=True, exist_ok=True)
    draw(figures, given.output / "simulate.png")
    report = json.dumps(to_json(figures), indent=2)
    (given.output / "simulate.json").write_text(report + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.simulate", description=__doc__)
    parser.add_argument("--full", action="store_true", help="with 1,000 nodes as well")
    parser.add_argument("--nodes", type=int, help="one size of your own ...")
    parser.add_argument("--sessions", type=int, default=8_000, help="... with so many sessions")
    parser.add_argument("--blocks", type=int, default=800_000, help="... and blocks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("out"))
    return parser.parse_args()


def _scales(given: argparse.Namespace) -> tuple[Scale, ...]:
    if given.nodes is not None:
        return (Scale(given.nodes, given.sessions, given.blocks),)
    return (*SCALES, FULL_SCALE) if given.full else SCALES


if __name__ == "__main__":
    sys.exit(main())
