"""Every part of the demo has its bar, or its lines where nobody looks at a terminal."""

import re

from rich.console import Console

from hearthkv.cli.progress import demo_progress
from hearthkv.core.tier import TierCounts
from tests.unit.hearthkv.demo.conftest import turn


def test_parts_are_counted_and_the_last_turn_is_told():
    console = Console(width=100, color_system=None, force_terminal=True)
    with console.capture() as capture, demo_progress(console, "starting the cluster") as progress:
        progress.begin("with the cache", 2)
        progress.advance(turn(1, TierCounts()))
        progress.advance(turn(2, TierCounts(hbm=600), ttft_s=0.5))
        progress.begin("engine-1 is restarted", 1)
    # The bars are drawn over and over; what counts is the last drawing.
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capture.get()).split("\r")[-1]
    lines = [line.split() for line in shown.splitlines() if line.strip()][-3:]
    assert lines[0][:3] == ["starting", "the", "cluster"]
    assert "1/1" in lines[0]
    assert "2/2" in lines[1]
    assert " ".join(lines[1]).endswith("1200 tok, 0.50 s, 50% cached")
    assert "0/1" in lines[2]


def test_without_a_terminal_each_turn_is_a_line():
    console = Console(width=100, force_terminal=False)
    with console.capture() as capture, demo_progress(console, "starting the cluster") as progress:
        progress.begin("with the cache", 2)
        progress.advance(turn(2, TierCounts(hbm=600), ttft_s=0.5))
    assert capture.get().splitlines() == [
        "starting the cluster",
        "with the cache (2 turns)",
        "  turn: 1200 tok, 0.50 s, 50% cached",
    ]
