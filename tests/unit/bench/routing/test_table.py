"""bench/routing/table.py: the tables for a person."""

from rich.console import Console
from rich.table import Table

from bench.routing import table
from bench.routing.figures import Index, PeerRow
from tests.unit.bench.routing.panels import row


def shown(what: Table) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(what)
    return capture.get()


def test_a_row_tells_whether_its_goals_are_met():
    text = shown(table.calls_table([row(), row(nodes=1000, route_us=400.0)]))
    assert "1.20 met" in text
    assert "1.60 MISSED" in text
    assert "45 met" in text


def test_the_index_is_told_in_bytes_a_block():
    assert "36" in shown(table.index_table([Index(64, 1_000_000, 36_000_000)]))


def test_a_peer_that_was_not_measured_at_a_length_has_a_dash():
    text = shown(
        table.peers_table([PeerRow("a", 1_000, 5.0, 9.0), PeerRow("b", 64_000, 1_234.0, 2_000.0)])
    )
    assert "1,234" in text
    assert "-" in text
