"""Tables show every turn, and fit a terminal of 80 columns."""

from rich.console import Console

from hearthkv.demo import table
from hearthkv.demo.turn_record import DemoResult, SessionResult


def shown(result: SessionResult) -> list[str]:
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        console.print(table.render(result))
    return capture.get().splitlines()


def row(lines: list[str], first: str) -> list[str]:
    return next(line for line in lines if line.strip().startswith(first)).split()


def test_a_round_has_its_times_its_tiers_and_its_node(good_result: DemoResult):
    cells = row(shown(good_result), "3 ")
    assert " ".join(cells) == "3 1300 12.00 0.50 24.0 600 400 200 0.923 node-1 session"


def test_the_turns_after_the_session_say_what_had_happened(good_result: DemoResult):
    lines = shown(good_result)
    assert " ".join(row(lines, "node killed")) == (
        "node killed 1500 13.00 - - - 0.000 node-2 failover"
    )


def test_the_totals_are_one_sentence_each(good_result: DemoResult):
    assert table.totals_line(good_result) == (
        "TTFT in sum: 24.0 s without the cache, 5.0 s with it. Round 3: 24.0 times faster. "
        "cache_hit_ratio from round 2 on: 0.922"
    )


def test_nothing_is_cut_in_80_columns(good_result: DemoResult):
    assert not any("…" in line for line in shown(good_result))


def test_a_session_without_misfortunes_has_no_second_table(guest_result: SessionResult):
    text = "\n".join(shown(guest_result))
    assert "One session, without the cache and with it" in text
    assert "The same session goes on" not in text
