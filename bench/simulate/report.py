"""The figures of all scales as a table, as JSON and as a picture."""

import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from rich import box
from rich.table import Table

from bench.simulate.scale import Figures, imbalance

COLOURS = ("#9a9a9a", "#5b9bc4", "#14476b")


def table_of(figures: Sequence[Figures]) -> Table:
    """Return a row for each scale."""
    table = Table(
        title=f"One router; seed {figures[0].seed}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for column in (
        *("nodes", "sessions", "indexed", "decisions/s", "p50 us", "p99 us"),
        *("bytes/block", "hit %", "max/mean sessions", "max/mean tokens"),
        *("join: new homes %", "moved %", "leave: new homes %", "moved %"),
    ):
        table.add_column(column, justify="right")
    for each in figures:
        table.add_row(
            f"{each.scale.nodes:,}",
            f"{each.scale.sessions:,}",
            f"{each.indexed_keys:,}",
            f"{each.decisions_per_s:,.0f}",
            f"{each.decision_percentile_us(50):.0f}",
            f"{each.decision_percentile_us(99):.0f}",
            f"{each.index_bytes / each.indexed_keys:.0f}",
            f"{100 * each.hit_share:.1f}",
            f"{imbalance(each.sessions_by_node):.2f}",
            f"{imbalance(each.tokens_by_node):.2f}",
            f"{100 * each.joined.rehomed_share:.2f}",
            f"{100 * each.joined.moved_share:.2f}",
            f"{100 * each.left.rehomed_share:.2f}",
            f"{100 * each.left.moved_share:.2f}",
        )
    return table


def to_json(figures: Sequence[Figures]) -> dict[str, object]:
    """Return the figures, and what they were measured with."""
    return {
        "command": "python -m bench.simulate " + " ".join(sys.argv[1:]),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "seed": figures[0].seed,
        "scales": [
            {
                "nodes": each.scale.nodes,
                "sessions": each.scale.sessions,
                "blocks": each.scale.blocks,
                "decisions": len(each.decision_us),
                "decisions_per_s": each.decisions_per_s,
                "decision_p50_us": each.decision_percentile_us(50),
                "decision_p99_us": each.decision_percentile_us(99),
                "indexed_keys": each.indexed_keys,
                "router_bytes": each.index_bytes,
                "hit_share": each.hit_share,
                "max_over_mean_sessions": imbalance(each.sessions_by_node),
                "max_over_mean_tokens": imbalance(each.tokens_by_node),
                "join": {
                    "rehomed_share": each.joined.rehomed_share,
                    "moved_share": each.joined.moved_share,
                },
                "leave": {
                    "rehomed_share": each.left.rehomed_share,
                    "moved_share": each.left.moved_share,
                },
            }
            for each in figures
        ],
    }


def draw(figures: Sequence[Figures], path: Path) -> None:
    """Draw how long decisions take, and how evenly sessions and tokens lie on the nodes."""
    picture = Figure(figsize=(12, 4), layout="constrained")
    times, sessions, tokens = picture.subplots(1, 3)
    for each, colour in zip(figures, COLOURS, strict=False):
        label = f"{each.scale.nodes:,} nodes"
        ordered = sorted(each.decision_us)
        shares = [100 * at / len(ordered) for at in range(len(ordered))]
        times.plot(ordered, shares, color=colour, label=label)
        for axes, counts in ((sessions, each.sessions_by_node), (tokens, each.tokens_by_node)):
            mean = sum(counts) / len(counts)
            ranks = [100 * (at + 0.5) / len(counts) for at in range(len(counts))]
            axes.plot(ranks, [count / mean for count in sorted(counts)], color=colour, label=label)
    times.set(xscale="log", xlabel="us a decision", ylabel="% of decisions", title="Decisions")
    sessions.set(xlabel="% of nodes", ylabel="share of the mean", title="Sessions on a node")
    tokens.set(xlabel="% of nodes", ylabel="share of the mean", title="Tokens that a node computes")
    for axes in (sessions, tokens):
        axes.axhline(1, color="#cccccc", linewidth=1, zorder=0)
        axes.set_ylim(bottom=0)
    times.legend(frameon=False)
    picture.savefig(path, dpi=150)
