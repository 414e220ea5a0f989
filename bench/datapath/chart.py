"""Draws CPU seconds per GB and GB/s of every family, side by side, for each block size."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from bench.datapath.figures import Figure, best_of
from bench.datapath.report import Panel
from bench.datapath.table import size_text

COLOURS = ("#bcd9ea", "#7fb2d6", "#2a6f97", "#14476b")
OURS_COLOURS = ("#f2d3a2", "#e8b35c", "#cf8420", "#8f5508")
OURS = "HearthKV"
GAP = 0.8  # between groups, for their headings


def draw(panels: Sequence[Panel], path: Path) -> None:
    """
    Write a PNG.

    Args:
        panels: Of one server, one a block size; at least one.
        path: Where to.
    """
    families = _by_group(panels)
    places = {family: place for family, (place, _) in families.items()}
    bottom = max(places.values(), default=0.0) + 1
    picture = Picture(figsize=(11, 1.4 + 0.45 * bottom), layout="constrained")
    left, right = picture.subplots(1, 2, sharey=True)
    for axes, figure in ((left, Figure.CPU), (right, Figure.SPEED)):
        _draw_bars(axes, panels, places, figure)
    left.set_yticks(list(places.values()), list(places))
    left.set_ylim(bottom - 0.4, -1.3)
    headings = {group: place for place, group in reversed(families.values())}
    for group, place in headings.items():
        left.annotate(group, (0, place - 0.55), (4, 0), textcoords="offset points", weight="bold")
    left.set_title("CPU s/GB, client + server: shorter is better", loc="left", fontsize=10)
    right.set_title("GB/s: longer is better", loc="left", fontsize=10)
    picture.suptitle(panels[0].server_title, x=0.01, ha="left", fontweight="bold")
    right.legend(frameon=False, title="block size", loc="lower right")
    picture.savefig(path, format="png", dpi=110)


def _by_group(panels: Sequence[Panel]) -> dict[str, tuple[float, str]]:
    """Return place and group of each family, from the top; a group begins with a gap."""
    groups = {row.family: row.group for panel in panels for row in panel.rows}
    placed: dict[str, tuple[float, str]] = {}
    place = 0.0
    for group in dict.fromkeys(groups.values()):
        for family in (name for name, own in groups.items() if own == group):
            placed[family] = (place, group)
            place += 1
        place += GAP
    return placed


def _draw_bars(
    axes: Axes, panels: Sequence[Panel], places: Mapping[str, float], figure: Figure
) -> None:
    thickness = 0.8 / len(panels)
    for index, panel in enumerate(panels):
        values = [best_of(panel.rows, family, figure) or 0.0 for family in places]
        offset = (index - (len(panels) - 1) / 2) * thickness
        shade = index % len(COLOURS)
        colours = [(OURS_COLOURS if OURS in name else COLOURS)[shade] for name in places]
        middles = [place + offset for place in places.values()]
        axes.barh(middles, values, thickness, color=colours, label=size_text(panel.block_bytes))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
