"""
Where the time to first token of a warm turn goes: `python -m bench.turn`.

Plays the demo's session on one node. The engine has no pool of its own here, so that every warm
round loads its prefix from the node. Prints a table, writes `turn.json` and `turn.png`.
"""

import argparse
import asyncio
import json
import platform
import re
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table

from hearthkv.cli.interrupt import run_until_signalled
from hearthkv.core.block_key import KeyChain
from hearthkv.core.clock import SystemClock
from hearthkv.core.kv_cache_settings import GIB, KvCacheSettings
from hearthkv.core.routing import CacheHint
from hearthkv.demo.agent import Agent, Session, SessionSize
from hearthkv.demo.cluster_plan import ClusterPlan, ServerCommands
from hearthkv.demo.local_cluster import local_cluster
from hearthkv.demo.play import TOKEN_BYTES, fitted, open_agent
from hearthkv.demo.script import ROUNDS_FULL, TOKENS_DEFAULT
from hearthkv.demo.turn_record import TurnRecord

HASH_REPEATS = 5

# One line for every save that has ended, in the order of the turns.
SAVED = re.compile(r"BlocksSaved session=\S+ saved=(\d+) offered=(\d+) seconds=(\S+)")

PARTS = ("route", "match", "load", "compute", "rest")
COLOURS = ("#9c755f", "#e0a030", "#5b9bc4", "#14476b", "#c8c8c8")


@dataclass(frozen=True, slots=True)
class Round:
    """One round, in seconds. `hash_s` is a part of `route_s`, and of `match_s` once more."""

    round: int
    prompt_tokens: int
    cached_tokens: int
    hash_s: float  # hashing the whole prompt anew; a client that has its chain hashes the tail
    route_s: float  # asking the router, before the request
    match_s: float  # in the engine: hashing, and asking the node
    load_s: float
    compute_s: float
    rest_s: float  # HTTP, JSON, tokenising, waiting for the engine
    saved_blocks: int = 0
    save_s: float = 0.0  # behind the answer, so not a part of any TTFT

    @property
    def total_s(self) -> float:
        """From asking the router to the first token."""
        return self.route_s + self.match_s + self.load_s + self.compute_s + self.rest_s


def main() -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog="bench.turn", description=__doc__)
    parser.add_argument("--tokens", type=int, default=TOKENS_DEFAULT)
    parser.add_argument("--rounds", type=int, default=ROUNDS_FULL)
    parser.add_argument("--output", type=Path, default=Path("out"))
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    rounds = run_until_signalled(measure(SessionSize(given.tokens, given.rounds)))
    Console().print(table_of(rounds))
    draw(rounds, given.output / "turn.png")
    report = {
        "command": "python -m bench.turn " + " ".join(sys.argv[1:]),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "rounds": [{**asdict(each), "total_s": each.total_s} for each in rounds],
    }
    (given.output / "turn.json").write_text(json.dumps(report, indent=2) + "\n")
    return 0


async def measure(size: SessionSize) -> list[Round]:
    """Play the session on a cluster of one node, and return what each round took."""
    session_gib = size.tokens * TOKEN_BYTES / GIB
    cache = KvCacheSettings(
        cache_capacity_gb=3 * session_gib, hbm_ratio=0.0, dram_ratio=0.6, ssd_ratio=0.4
    )
    # Saves are logged on this level.
    engine = (*ServerCommands().engine, "--log-level", "debug")
    plan = ClusterPlan(nodes=1, kv_cache=cache, commands=ServerCommands(engine=engine))
    async with local_cluster(plan) as cluster:
        async with open_agent(cluster) as agent:
            session = Session(agent, "bench-turn", CacheHint.REUSE)
            turns = session.play(await fitted(agent, size))
            rounds = [_round(turn, await _hash_s(agent, session)) async for turn in turns]
        engine_name = cluster.nodes[0].engine_name
        # An engine ends its saves before it ends.
        await cluster.restart(engine_name)
        log = await asyncio.to_thread(cluster.layout.log_path(engine_name).read_text)
    return list(_with_saves(rounds, SAVED.findall(log)))


def table_of(rounds: list[Round]) -> Table:
    """Return a row a round: milliseconds, and shares of the whole."""
    table = Table(
        title="From asking the router to the first token: ms, and shares of the total",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for name in ("round", "prompt", "hash", *PARTS, "total", "save"):
        table.add_column(name, justify="right")
    for each in rounds:
        parts = (getattr(each, f"{part}_s") for part in PARTS)
        table.add_row(
            *(str(each.round), str(each.prompt_tokens)),
            f"{1000 * each.hash_s:.1f}",
            *(f"{1000 * part:.0f} {part / each.total_s:3.0%}" for part in parts),
            *(f"{1000 * each.total_s:.0f}", f"{1000 * each.save_s:.0f}"),
        )
    return table


def draw(rounds: list[Round], path: Path) -> None:
    """Write a picture of the warm rounds: a bar each, cut into its parts."""
    warm = rounds[1:]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    bottom = [0.0] * len(warm)
    for part, colour in zip(PARTS, COLOURS, strict=True):
        heights = [1000 * getattr(each, f"{part}_s") for each in warm]
        axes.bar([each.round for each in warm], heights, 0.7, bottom, color=colour, label=part)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.set_title("Warm rounds: where the time to first token goes", loc="left")
    axes.set_xlabel("round")
    axes.set_ylabel("ms")
    axes.set_xticks([each.round for each in warm])
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(0, 1.25 * max(bottom))
    axes.legend(frameon=False, ncols=len(PARTS), loc="upper left")
    figure.savefig(path, format="png", dpi=110)


def _round(turn: TurnRecord, hash_s: float) -> Round:
    timings = turn.timings
    named_s = {part: timings.get(f"{part}_s", 0.0) for part in ("match", "load", "compute")}
    return Round(
        round=turn.round,
        prompt_tokens=turn.prompt_tokens,
        cached_tokens=turn.cached.total,
        hash_s=hash_s,
        route_s=turn.route_s,
        match_s=named_s["match"],
        load_s=named_s["load"],
        compute_s=named_s["compute"],
        rest_s=turn.ttft_s - sum(named_s.values()),
    )


async def _hash_s(agent: Agent, session: Session) -> float:
    """Time to hash a turn's whole prompt, with no chain of the turn before at hand."""
    prompt = await agent.tokenize(session.history[:-1])
    clock, namespace = SystemClock(), prompt.namespace
    times = []
    for _ in range(HASH_REPEATS):
        started_s = clock.now()
        KeyChain(namespace.namespace_id, namespace.block_size).keys_of(prompt.tokens)
        times.append(clock.now() - started_s)
    return min(times)


def _with_saves(rounds: list[Round], saves: list[tuple[str, str, str]]) -> Iterable[Round]:
    for each, (saved, _, seconds) in zip(rounds, saves, strict=True):
        fields = asdict(each) | {"saved_blocks": int(saved), "save_s": float(seconds)}
        yield Round(**fields)


if __name__ == "__main__":
    sys.exit(main())
