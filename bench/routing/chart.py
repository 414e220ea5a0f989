"""Draws what a placement takes over gRPC beside an empty call, and what the decision takes."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from bench.routing.figures import CALL_RATIO_MAX, DECISION_US_MAX, Row

COLOURS = ("#e8b35c", "#cf8420", "#8f5508")


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write a PNG; there is at least one row."""
    picture = Picture(figsize=(11, 4.2), layout="constrained")
    left, right = picture.subplots(1, 2)
    _draw_calls(left, rows)
    _draw_decisions(right, rows)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
        axes.set_xlabel("tokens in the prompt")
    picture.suptitle("Placing a turn: shorter is better", x=0.01, ha="left", fontweight="bold")
    picture.savefig(path, format="png", dpi=110)


def _draw_calls(axes: Axes, rows: Sequence[Row]) -> None:
    lengths, counts = _lengths(rows), _node_counts(rows)
    thickness = 0.8 / len(counts)
    for index, nodes in enumerate(counts):
        of_nodes = [row for row in rows if row.nodes == nodes]
        places = [
            lengths.index(row.prompt_tokens) + (index - (len(counts) - 1) / 2) * thickness
            for row in of_nodes
        ]
        axes.bar(
            places,
            [row.calls.route.p50_us for row in of_nodes],
            0.9 * thickness,
            color=COLOURS[index % len(COLOURS)],
            label=f"Route, {nodes:,} nodes",
        )
        for place, row in zip(places, of_nodes, strict=True):
            ends = (place - thickness / 2, place + thickness / 2)
            is_first = index == 0 and row is of_nodes[0]
            for height, style, label in (
                (row.calls.empty.p50_us, "-", "empty call"),
                (CALL_RATIO_MAX * row.calls.empty.p50_us, ":", f"{CALL_RATIO_MAX} x empty call"),
            ):
                axes.plot(
                    ends,
                    (height, height),
                    style,
                    color="#14476b",
                    label=label if is_first else None,
                )
    axes.set_xticks(range(len(lengths)), [f"{tokens:,}" for tokens in lengths])
    axes.set_title("over gRPC, median, us", loc="left", fontsize=10)
    axes.set_ylim(0, 1.45 * max(row.calls.route.p50_us for row in rows))
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")


def _draw_decisions(axes: Axes, rows: Sequence[Row]) -> None:
    lengths = _lengths(rows)
    for index, nodes in enumerate(_node_counts(rows)):
        of_nodes = [row for row in rows if row.nodes == nodes]
        for style, name, values in (
            ("o-", "known session", [row.decision.known_us for row in of_nodes]),
            ("o--", "new session", [row.decision.new_us for row in of_nodes]),
        ):
            axes.plot(
                [lengths.index(row.prompt_tokens) for row in of_nodes],
                values,
                style,
                color=COLOURS[index % len(COLOURS)],
                label=f"{nodes:,} nodes, {name}",
            )
    axes.axhline(DECISION_US_MAX, color="#14476b", linestyle=":", label="goal at 64 nodes")
    axes.set_xticks(range(len(lengths)), [f"{tokens:,}" for tokens in lengths])
    highest = max(max(row.decision.known_us, row.decision.new_us) for row in rows)
    axes.set_ylim(0, 1.5 * max(highest, DECISION_US_MAX))
    axes.set_title("the decision alone, median, us", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")


def _lengths(rows: Sequence[Row]) -> list[int]:
    return sorted({row.prompt_tokens for row in rows})


def _node_counts(rows: Sequence[Row]) -> list[int]:
    return sorted({row.nodes for row in rows})
