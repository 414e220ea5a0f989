"""The tables for a person. Pure."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from bench.routing.figures import Index, PeerRow, Row


def calls_table(rows: Sequence[Row]) -> Table:
    """Placements over gRPC, beside empty calls, and decisions alone."""
    table = _table(
        *("nodes", "prompt\ntokens", "Route\np50 us", "\np99 us", "\nper s"),
        *("empty\np50 us", "\np99 us", "\nper s", "ratio\nof p50"),
        *("decision\nknown us", "\np99 us", "\nnew us", "\np99 us"),
    )
    for row in rows:
        decision = row.decision
        cells = [
            f"{row.nodes:,}",
            f"{row.prompt_tokens:,}",
            *(
                f"{value:,.0f}"
                for call in (row.calls.route, row.calls.empty)
                for value in (call.p50_us, call.p99_us, call.per_s)
            ),
            f"{row.calls.ratio:.2f} {_verdict(row.is_call_fast)}",
            f"{decision.known_us:.0f}",
            f"{decision.known_p99_us:.0f}",
            f"{decision.new_us:.0f} {_verdict(row.is_decision_fast)}",
            f"{decision.new_p99_us:.0f}",
        ]
        table.add_row(*cells)
    return table


def index_table(indexes: Sequence[Index]) -> Table:
    """The memory of the index."""
    table = _table("nodes", "blocks", "MB in all", "bytes a block")
    for index in indexes:
        table.add_row(
            f"{index.nodes:,}",
            f"{index.keys:,}",
            f"{index.grown_bytes / 1e6:.1f}",
            f"{index.bytes_per_key:.0f}",
        )
    return table


def peers_table(peers: Sequence[PeerRow]) -> Table:
    """What other routers take."""
    tokens = sorted({peer.prompt_tokens for peer in peers})
    table = _table("", *(f"{count:,} tokens\np50 us" for count in tokens))
    for name in dict.fromkeys(peer.name for peer in peers):
        of_tokens = {peer.prompt_tokens: peer for peer in peers if peer.name == name}
        table.add_row(
            name,
            *(f"{of_tokens[count].p50_us:,.0f}" if count in of_tokens else "-" for count in tokens),
        )
    return table


def _verdict(is_met: bool | None) -> str:
    if is_met is None:
        return ""
    return "met" if is_met else "MISSED"


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    return table
