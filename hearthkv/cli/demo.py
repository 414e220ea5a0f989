"""`hearthkv demo`: plays a session before a cluster, its own or another, and shows the result."""

import json
import sys
from pathlib import Path

from rich.console import Console

from hearthkv.cli.arguments import DemoOptions
from hearthkv.cli.interrupt import run_until_signalled
from hearthkv.cli.progress import demo_progress
from hearthkv.core.errors import StartupError
from hearthkv.core.routing import CacheHint
from hearthkv.demo import chart, table
from hearthkv.demo.agent import Session, SessionSize
from hearthkv.demo.cluster_plan import ClusterPlan
from hearthkv.demo.local_cluster import local_cluster
from hearthkv.demo.model_package import find_model_file
from hearthkv.demo.play import demo_cache, open_agent, open_guest, play_demo, play_twice
from hearthkv.demo.turn_record import SessionResult
from hearthkv.demo.verdict import faults

EXIT_FAULT = 1
"""The demo ran to its end and has not shown what it should."""


def run(options: DemoOptions) -> int:
    """
    Play the demo and return the exit code.

    Raises:
        StartupError: If the cluster doesn't come up, or a result can't be written.
        ModelFileError: If engines are to be started, and the model is not installed.
        BadInputError: If the router's address can't be understood.
        PeerError: If the cluster stops answering.
        KeyboardInterrupt: If a signal ended it.
    """
    if options.router is None:
        find_model_file()
    json_path = options.json or options.output / "demo.json"
    chart_path = options.output / "demo.png"
    # Now rather than after minutes of playing.
    for path in (json_path, chart_path):
        check_writable(path)
    console = Console()
    result = run_until_signalled(_play(options, console))
    console.print(table.render(result))
    chart.draw(result, chart_path)
    json_path.write_text(json.dumps(result.as_json(), indent=2) + "\n", encoding="utf-8")
    console.print(f"Chart: {chart_path}   All figures: {json_path}", highlight=False)
    return exit_code(result)


def check_writable(path: Path) -> None:
    """
    Make the folder of a file, and see that the file can be written. What is there stays.

    Raises:
        StartupError: If it can't.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        was_there = path.exists()
        path.open("ab").close()
        if not was_there:
            path.unlink()  # a demo that is interrupted leaves no empty file
    except OSError as error:
        raise StartupError(f"{path} can't be written: {error.strerror}") from error


async def _play(options: DemoOptions, console: Console) -> SessionResult:
    size = SessionSize(options.tokens, options.rounds)
    if options.router is not None:
        return await _play_as_guest(options.router, size, console)
    plan = ClusterPlan(nodes=options.nodes, kv_cache=demo_cache(options.tokens))
    with demo_progress(console, "starting the cluster") as progress:
        async with local_cluster(plan) as cluster, open_agent(cluster) as agent:
            return await play_demo(agent, cluster, size, progress)


async def _play_as_guest(router: str, size: SessionSize, console: Console) -> SessionResult:
    with demo_progress(console, "looking for engines") as progress:
        async with open_guest(router) as agent:
            session = Session(agent, "demo-with-cache", CacheHint.REUSE)
            return await play_twice(agent, session, size, progress)


def exit_code(result: SessionResult) -> int:
    """Return 0 for a demo without faults; else tell the first one on standard error."""
    found = faults(result)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        print(f"hearthkv demo: {found[0]}{more}", file=sys.stderr)
        return EXIT_FAULT
    return 0
