"""
Measure the paths that blocks take: `python -m bench.datapath`.

Prints tables per server, writes `datapath.json` and a `datapath-SERVER.png` for each server.
"""

import argparse
import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.datapath import chart, table
from bench.datapath.figures import row_figures
from bench.datapath.goals import GOALS
from bench.datapath.load import MIB, Bytes, Load
from bench.datapath.peer_process import PEERS, PeerProcess
from bench.datapath.raw_resp import RawResp
from bench.datapath.report import Panel, to_json
from bench.datapath.rounds import measure
from bench.datapath.rows.catalogue import all_rows
from bench.datapath.servers import ServerKind, running, server_kinds

BLOCK_KIB = (64, 368, 1024, 4096)
WIDTH_MIN = 110  # columns of a table that goes into a file


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    kinds: Sequence[ServerKind]
    block_bytes: Sequence[int]
    total_bytes: int
    rounds: int
    only: str  # part of the names of the rows to measure
    peer_pythons: Mapping[str, Path]
    folder: Path


def main() -> int:
    """Run the bench."""
    given = _arguments()
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hearthkv-bench-", dir=given.folder) as folder:
        plan = Plan(
            kinds=[kind for kind in server_kinds() if kind.key in (given.server or [kind.key])],
            block_bytes=[1024 * size for size in ([1024] if given.quick else given.block_kib)],
            total_bytes=(64 if given.quick else given.data_mib) * MIB,
            rounds=2 if given.quick else given.rounds,
            only=given.only,
            peer_pythons=dict(given.peer_python),
            folder=Path(folder),
        )
        by_server = asyncio.run(measure_all(plan))
    show(by_server, given.output)
    panels = [panel for panels in by_server for panel in panels]
    report = to_json(panels, GOALS, circumstances())
    (given.output / "datapath.json").write_text(report)
    return 0


async def measure_all(plan: Plan) -> list[list[Panel]]:
    """Return the panels of every server, in the order of the block sizes."""
    data = Bytes(plan.folder / "blocks", plan.total_bytes)
    loads = [data.load(size) for size in plan.block_bytes]
    peers = {name: PeerProcess(name, plan.peer_pythons.get(name), plan.folder) for name in PEERS}
    async with AsyncExitStack() as stack:
        for peer in peers.values():
            stack.push_async_callback(peer.close)
        return [
            [await measure_one(plan, kind, load, peers) for load in loads] for kind in plan.kinds
        ]


async def measure_one(
    plan: Plan, kind: ServerKind, load: Load, peers: Mapping[str, PeerProcess]
) -> Panel:
    """Start a server, fill it with the load, and measure all rows."""
    print(f"{kind.title}, {table.size_text(load.block_bytes)} ...", file=sys.stderr)
    with running(kind, plan.folder) as server:
        resp = RawResp(server.socket_path)
        resp.set(load.keys, load)
        resp.close()
        rows = [row for row in all_rows(server, peers) if plan.only in row.name]
        measured = await measure(rows, load, rounds=plan.rounds)
    return Panel(
        server=kind.key,
        server_title=kind.title,
        block_bytes=load.block_bytes,
        block_count=load.block_count,
        rows=tuple(
            row_figures(
                row.name, row.family or row.name, row.group.value, measured.samples[row.name]
            )
            for row in rows
            if row.name in measured.samples
        ),
        samples=measured.samples,
        unavailable=measured.unavailable,
    )


def show(by_server: Sequence[Sequence[Panel]], output: Path) -> None:
    """Print the tables and draw the pictures."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(WIDTH_MIN, console.width))
    for panels in by_server:
        title = panels[0].server_title
        console.print(f"[bold]{title}[/bold]: CPU s/GB (client + server) and GB/s, medians")
        console.print(table.figures_table(panels), "")
        console.print(f"[bold]{title}[/bold]: resident memory at its peak over before, MiB")
        console.print(table.growth_table(panels), "")
        ratios = table.goals_table(panels, GOALS)
        if ratios.row_count:
            console.print(f"[bold]{title}[/bold]: ratios within the run")
            console.print(ratios, "")
        chart.draw(panels, output / f"datapath-{panels[0].server}.png")
    console.print(*table.absences([panel for panels in by_server for panel in panels]), sep="\n")


def circumstances() -> dict[str, object]:
    """Return what a figure needs beside it."""
    return {
        "command": "python -m bench.datapath " + " ".join(sys.argv[1:]),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}",
        "python": platform.python_version(),
        "load_average": list(os.getloadavg()),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.datapath", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1 MiB blocks, 64 MiB, two rounds")
    parser.add_argument("--block-kib", type=int, nargs="+", default=BLOCK_KIB, metavar="KIB")
    parser.add_argument("--data-mib", type=int, default=256, help="moved by a row in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--server", action="append", help="redis, redis-kept, valkey; all if none")
    parser.add_argument("--only", default="", help="part of a name: measure these rows alone")
    parser.add_argument("--folder", type=Path, help="on the disk that is to be measured")
    parser.add_argument("--output", type=Path, default=Path("out"))
    parser.add_argument(
        "--peer-python",
        type=_peer_python,
        action="append",
        default=[],
        metavar="PEER=PATH",
        help=f"interpreter of an environment with a peer: {', '.join(PEERS)}",
    )
    return parser.parse_args()


def _peer_python(text: str) -> tuple[str, Path]:
    peer, _, path = text.partition("=")
    if peer not in PEERS or not Path(path).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not PEER=PATH, with {' or '.join(PEERS)}")
    return peer, Path(path)


if __name__ == "__main__":
    sys.exit(main())
