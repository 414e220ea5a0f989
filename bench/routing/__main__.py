"""
Measure what it takes to place a turn: `python -m bench.routing`.

For each number of nodes a router runs in a process of its own, with a million blocks in its index.
Its calls are measured in turns with empty calls to the same process, so their ratio holds on a busy
machine too. Other routers are measured where their packages are: see bench/peers/README.md.
"""

import argparse
import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.datapath.child_process import ChildProcess
from bench.datapath.child_side import Message
from bench.datapath.row import RowUnavailableError
from bench.routing import chart, table
from bench.routing.calls import measure
from bench.routing.figures import Decision, Index, PeerRow, Row, to_json
from bench.routing.peers import PEERS, measure_peer
from bench.routing.workload import Workload

NODES = (4, 64, 1000)
WIDTH_MIN = 130


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    nodes: Sequence[int]
    blocks: int
    calls: int
    busy_s: float
    peer_pythons: Mapping[str, Path]
    folder: Path


@dataclass(slots=True)
class Found:
    """What was measured."""

    rows: list[Row]
    indexes: list[Index]
    peers: list[PeerRow]
    absences: list[str]


def main() -> int:
    """Measure, print the tables, write the report and the picture."""
    given = _arguments()
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(
            nodes=given.nodes,
            blocks=given.blocks // 10 if given.quick else given.blocks,
            calls=200 if given.quick else given.calls,
            busy_s=0.3 if given.quick else given.busy_s,
            peer_pythons=dict(given.peer_python),
            folder=Path(folder),
        )
        found = asyncio.run(_measure_all(plan))
    _show(found, given.output)
    return 0


async def _measure_all(plan: Plan) -> Found:
    found = Found([], [], [], [])
    for nodes in plan.nodes:
        print(f"{nodes} nodes ...", file=sys.stderr)
        await _measure_router(plan, Workload(nodes, plan.blocks), found)
    for name in PEERS:
        print(f"{name} ...", file=sys.stderr)
        try:
            found.peers += await measure_peer(name, plan.peer_pythons.get(name), plan.folder)
        except RowUnavailableError as error:
            found.absences.append(f"not here: {name}: {error}")
    return found


async def _measure_router(plan: Plan, workload: Workload, found: Found) -> None:
    child = await ChildProcess.start(
        *(sys.executable, "-m", "bench.routing.router_child"),
        *(str(workload.nodes), str(workload.blocks)),
        log_path=plan.folder / f"router-{workload.nodes}.log",
    )
    try:
        started = await child.listen()
        keys, grown_bytes = int(str(started["index_keys"])), int(str(started["index_bytes"]))
        found.indexes.append(Index(workload.nodes, keys, grown_bytes))
        for tokens, sessions in workload.sessions().items():
            calls = await measure(
                str(started["address"]),
                str(started["empty"]),
                sessions,
                calls=plan.calls,
                busy_s=plan.busy_s,
            )
            decision = _decision(await child.ask({"prompt_tokens": tokens}))
            found.rows.append(Row(workload.nodes, tokens, calls, decision))
    finally:
        await child.close()


def _decision(said: Message) -> Decision:
    known, known_p99, new, new_p99 = (
        int(str(said[name])) / 1000 for name in ("known", "known_p99", "new", "new_p99")
    )
    return Decision(known, known_p99, new, new_p99)


def _show(found: Found, output: Path) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(WIDTH_MIN, console.width))
    console.print("[bold]Route over gRPC[/bold], in turns with empty calls; decisions alone")
    console.print(table.calls_table(found.rows), "")
    console.print("[bold]The index[/bold]: what the router's process grew by")
    console.print(table.index_table(found.indexes), "")
    if found.peers:
        console.print("[bold]Other routers[/bold]: see bench/peers/README.md for what is measured")
        console.print(table.peers_table(found.peers), "")
    console.print(*found.absences, sep="\n")
    chart.draw(found.rows, output / "routing.png")
    circumstances = {
        "command": "python -m bench.routing " + " ".join(sys.argv[1:]),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}",
        "python": platform.python_version(),
        "load_average": list(os.getloadavg()),
    }
    report = to_json(found.rows, found.indexes, found.peers, circumstances)
    (output / "routing.json").write_text(report)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.routing", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the blocks, 200 calls")
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument(
        "--blocks", type=int, default=1_000_000, help="in the index, over all nodes"
    )
    parser.add_argument("--calls", type=int, default=2_000, help="for each length of a prompt")
    parser.add_argument("--busy-s", type=float, default=3.0, help="to count calls a second")
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
