"""Draws the chart of a demo: the time to first token of every round, and the hit ratio."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hearthkv.demo.turn_record import SessionResult

COLOUR_OFF = "#b0483a"
COLOUR_ON = "#2a6f97"
TIER_COLOURS = {"hbm": "#14476b", "dram": "#5b9bc4", "ssd": "#bcd9ea"}
TIER_NAMES = {"hbm": "HBM", "dram": "DRAM", "ssd": "SSD"}

EXTRA_LABELS = ("engine\nrestarted", "node\nkilled", "next\nturn")
"""Of the turns after the session, where there are any."""


def draw(result: SessionResult, path: Path) -> None:
    """
    Write the chart as a PNG.

    Raises:
        OSError: If the file can't be written.
    """
    figure = Figure(figsize=(9, 6.4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _draw_ttft(upper, result)
    _draw_hit_ratio(lower, result)
    rounds = len(result.with_cache)
    extra_labels = EXTRA_LABELS[: len(result.extra)]
    labels = [*(str(turn.round) for turn in result.with_cache), *extra_labels]
    lower.set_xticks(range(1, len(labels) + 1), labels)
    lower.set_xlabel("round", loc="left")
    for axes in (upper, lower):
        # What is left of the line is the session; right of it are the misfortunes.
        if extra_labels:
            axes.axvline(rounds + 0.5, color="0.6", linewidth=0.8, linestyle=":")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
    # A bare Figure draws with Agg: no display is needed, and pyplot's global state is not touched.
    figure.savefig(path, format="png", dpi=110)


def _draw_ttft(axes: Axes, result: SessionResult) -> None:
    off = [turn.ttft_s for turn in result.without_cache]
    on = [turn.ttft_s for turn in result.with_cache]
    extra = [turn.ttft_s for _, turn in result.extra]
    rounds = range(1, len(on) + 1)
    after = range(len(on) + 1, len(on) + len(extra) + 1)
    axes.plot(rounds, off, "o-", color=COLOUR_OFF, label="without the cache")
    axes.plot(rounds, on, "o-", color=COLOUR_ON, label="with the cache")
    axes.plot(after, extra, "D", color=COLOUR_ON, markerfacecolor="white")
    for x, y in [(len(on), on[-1]), *zip(after, extra, strict=True)]:
        axes.annotate(f"{y:.2f} s", (x, y), (0, 7), textcoords="offset points", ha="center")
    axes.annotate(
        f"{off[-1]:.2f} s", (len(off), off[-1]), (0, 7), textcoords="offset points", ha="center"
    )
    # Room for the legend above the highest point.
    axes.set_ylim(0, 1.3 * max(*off, *on, *extra))
    axes.set_ylabel("time to first token, s")
    last = result.with_cache[-1]
    axes.set_title(
        f"Round {last.round}, {last.prompt_tokens} tokens: first token "
        f"{result.speedups[-1]:.1f} times sooner with the cache",
        loc="left",
    )
    axes.legend(frameon=False, ncols=2, loc="upper left")


def _draw_hit_ratio(axes: Axes, result: SessionResult) -> None:
    turns = [*result.with_cache, *(turn for _, turn in result.extra)]
    positions = range(1, len(turns) + 1)
    bottom = [0.0] * len(turns)
    for tier, colour in TIER_COLOURS.items():
        shares = [getattr(turn.cached, tier) / turn.prompt_tokens for turn in turns]
        axes.bar(positions, shares, 0.62, bottom, color=colour, label=TIER_NAMES[tier])
        bottom = [low + share for low, share in zip(bottom, shares, strict=True)]
    for x, ratio in zip(positions, bottom, strict=True):
        axes.annotate(f"{ratio:.2f}", (x, ratio), (0, 3), textcoords="offset points", ha="center")
    axes.set_ylim(0, 1.25)
    axes.set_yticks([0, 0.5, 1])
    axes.set_ylabel("share of the prompt\nfrom the cache")
    axes.legend(frameon=False, ncols=3, loc="upper left")
