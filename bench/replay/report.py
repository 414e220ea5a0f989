"""The replay's results as a table, as JSON and as a picture."""

import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from rich import box
from rich.table import Table

from bench.replay.contenders import CAPACITY_PERCENTS, Score

STYLES: Mapping[str, tuple[str, str]] = {
    "lru": ("#9a9a9a", "-"),
    "s3fifo": ("#e0a030", "-"),
    "hit_density": ("#5b9bc4", "-"),
    "hit_density, ends": ("#14476b", "-"),
    "hit_density, ends + kinds": ("#14476b", ":"),
    "optimum": ("#2b2b2b", "--"),
}
"""Colour and line of each contender."""


def table_of(scores: Sequence[Score], seed: int) -> Table:
    """Return a row for each contender on each trace: token hit percent by capacity."""
    table = Table(
        title=f"Token hit % by capacity, in % of the footprint; seed {seed}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("trace", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    for percent in CAPACITY_PERCENTS:
        table.add_column(f"{percent} %", justify="right")
    for name in _traces(scores):
        of_trace = [score for score in scores if score.trace == name]
        for score in of_trace:
            figures = (f"{hit:.1f}" for hit in score.hit_percents)
            is_last = score is of_trace[-1]
            table.add_row(name, score.contender, *figures, end_section=is_last)
    return table


def to_json(scores: Sequence[Score], seed: int, session_count: int) -> dict[str, object]:
    """Return the results, and what they were measured with."""
    return {
        "command": "python -m bench.replay " + " ".join(sys.argv[1:]),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "seed": seed,
        "session_count": session_count,
        "capacity_percents": CAPACITY_PERCENTS,
        "token_hit_percents": {
            name: {each.contender: each.hit_percents for each in scores if each.trace == name}
            for name in _traces(scores)
        },
    }


def draw(scores: Sequence[Score], path: Path) -> None:
    """Write a picture with a panel for each trace: hit percent against capacity."""
    names = _traces(scores)
    figure = Figure(figsize=(4.6 * len(names), 4.4), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        for each in (score for score in scores if score.trace == name):
            colour, line = STYLES[each.contender]
            axes.plot(
                CAPACITY_PERCENTS,
                each.hit_percents,
                line,
                color=colour,
                marker="o",
                markersize=3.5,
                label=each.contender,
            )
        axes.set_title(name, loc="left")
        axes.set_xscale("log")
        axes.set_xticks(CAPACITY_PERCENTS, [str(percent) for percent in CAPACITY_PERCENTS])
        axes.minorticks_off()
        axes.set_xlabel("capacity, % of the footprint")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", color="#e4e4e4")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("prompt tokens hit, %")
    lines = {line.get_label(): line for axes in panels for line in axes.get_lines()}
    ordered = {name: lines[name] for name in STYLES if name in lines}
    figure.legend(
        ordered.values(), ordered.keys(), frameon=False, ncols=6, loc="outside lower center"
    )
    figure.savefig(path, format="png", dpi=110)


def _traces(scores: Sequence[Score]) -> list[str]:
    return list(dict.fromkeys(score.trace for score in scores))
