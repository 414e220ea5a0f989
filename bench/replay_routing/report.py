"""The results of routing recorded traffic as a table, as JSON and as a picture."""

import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich import box
from rich.table import Table

from bench.replay_routing.contenders import CONTENDERS, OURS, POOLED
from bench.replay_routing.play import Case, Score

NODE_COUNTS = (4, 8)
CAPACITY_PERCENTS = (10, 25)
BLUE, GREY, DARK = "#14476b", "#9a9a9a", "#2b2b2b"

Scores = Mapping[Case, Score]


def table_of(scores: Sequence[Score], seed: int) -> Table:
    """Return a row for each way to choose a node, on each trace and number of nodes."""
    table = Table(
        title="Token hit %, max/mean of the tokens that nodes compute, and tokens pulled\n"
        f"in % of those served; by capacity in % of the footprint; seed {seed}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("trace", no_wrap=True)
    table.add_column("nodes", justify="right")
    table.add_column("router", no_wrap=True)
    for percent in CAPACITY_PERCENTS:
        for figure in (f"hit {percent} %", "max/mean", "pulled"):
            table.add_column(figure, justify="right", no_wrap=True)
    for trace, of_trace in _by_trace(scores).items():
        for node_count in NODE_COUNTS:
            for name in CONTENDERS:
                cases = [Case(name, node_count, percent) for percent in CAPACITY_PERCENTS]
                figures = [figure for case in cases for figure in _figures(of_trace[case])]
                is_last = name == tuple(CONTENDERS)[-1]
                table.add_row(trace, str(node_count), name, *figures, end_section=is_last)
    return table


def to_json(scores: Sequence[Score], seed: int, session_count: int) -> dict[str, object]:
    """Return the results, and what they were measured with."""
    return {
        "command": "python -m bench.replay_routing " + " ".join(sys.argv[1:]),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "seed": seed,
        "session_count": session_count,
        "scores": [
            {
                "trace": each.trace,
                "router": each.case.contender,
                "node_count": each.case.node_count,
                "capacity_percent": each.case.capacity_percent,
                "token_hit_percent": each.hit_percent,
                "max_by_mean_computed_tokens": each.imbalance,
                "pulled_blocks": each.pulled_blocks,
                "pulled_percent": each.pulled_percent,
                "turns_by_reason": each.reasons,
            }
            for each in scores
        ],
    }


def draw(scores: Sequence[Score], path: Path) -> None:
    """Write a picture: a panel for each trace and number of nodes, hit % of each router."""
    by_trace = _by_trace(scores)
    figure = Figure(figsize=(10.5, 2.7 * len(by_trace)), layout="constrained")
    panels = figure.subplots(len(by_trace), len(NODE_COUNTS), squeeze=False, sharey=True)
    for row, (trace, of_trace) in zip(panels, by_trace.items(), strict=True):
        for axes, node_count in zip(row, NODE_COUNTS, strict=True):
            _draw_panel(axes, of_trace, node_count)
            axes.set_title(f"{trace}, {node_count} nodes", loc="left", fontsize=10)
    for axes in panels[-1]:
        axes.set_xlabel("prompt tokens hit, %; beside: max/mean of computed tokens", fontsize=9)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=3, loc="outside lower center")
    figure.savefig(path, format="png", dpi=110)


def _draw_panel(axes: Axes, of_trace: Scores, node_count: int) -> None:
    names = list(CONTENDERS)
    height = 0.8 / len(CAPACITY_PERCENTS)
    for place, percent in enumerate(CAPACITY_PERCENTS):
        cells = [of_trace[Case(name, node_count, percent)] for name in names]
        levels = [index + height * (place - 0.5) for index in range(len(names))]
        hits = [cell.hit_percent for cell in cells]
        colours = [_colour(name) for name in names]
        bars = axes.barh(levels, hits, 0.9 * height, color=colours, alpha=1 - 0.5 * place)
        texts = [
            "" if name == POOLED else f"{cell.imbalance:.2f}"
            for name, cell in zip(names, cells, strict=True)
        ]
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        axes.bar_label(bars, texts, fontsize=7, padding=2, bbox=ground)
        label = f"capacity {percent} % of the footprint"
        axes.barh([0], [0], color=GREY, alpha=1 - 0.5 * place, label=label)
        axes.axvline(hits[names.index(POOLED)], color=DARK, linewidth=0.8, linestyle="--", zorder=0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.margins(x=0.1)
    axes.spines[["top", "right"]].set_visible(False)


def _colour(name: str) -> str:
    if name == POOLED:
        return DARK
    return BLUE if name.startswith(OURS) else GREY


def _figures(score: Score) -> tuple[str, str, str]:
    pulled = f"{score.pulled_percent:.1f}" if score.pulled_blocks else "-"
    return f"{score.hit_percent:.1f}", f"{score.imbalance:.2f}", pulled


def _by_trace(scores: Sequence[Score]) -> dict[str, Scores]:
    names = dict.fromkeys(score.trace for score in scores)
    return {name: {each.case: each for each in scores if each.trace == name} for name in names}
