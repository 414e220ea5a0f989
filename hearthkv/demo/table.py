"""Tables of a demo's turns, for a terminal."""

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from hearthkv.demo.turn_record import SessionResult, TurnRecord


def render(result: SessionResult) -> RenderableType:
    """Return everything that was measured, as tables and a line of totals."""
    tables = [rounds_table(result), *([extra_table(result)] if result.extra else [])]
    return Group(*tables, totals_line(result))


def rounds_table(result: SessionResult) -> Table:
    """Return a row for every round: what it took without the cache and with it."""
    table = _table("One session, without the cache and with it")
    _add_columns(table, "round", "TTFT\noff, s", "TTFT\non, s", "times\nfaster")
    rows = zip(result.without_cache, result.with_cache, result.speedups, strict=True)
    for off, on, speedup in rows:
        ttft = (f"{off.ttft_s:.2f}", f"{on.ttft_s:.2f}", f"{speedup:.1f}")
        table.add_row(str(on.round), str(on.prompt_tokens), *ttft, *_cache_cells(on))
    return table


def extra_table(result: SessionResult) -> Table:
    """Return a row for every turn after the session proper, and what had happened before it."""
    table = _table("The same session goes on")
    _add_columns(table, "before it", "TTFT\ns")
    for before, turn in result.extra:
        cells = (before, str(turn.prompt_tokens), f"{turn.ttft_s:.2f}")
        table.add_row(*cells, *_cache_cells(turn))
    return table


def totals_line(result: SessionResult) -> str:
    """Return the sums in one line."""
    off_s = sum(turn.ttft_s for turn in result.without_cache)
    on_s = sum(turn.ttft_s for turn in result.with_cache)
    last = result.with_cache[-1]
    return (
        f"TTFT in sum: {off_s:.1f} s without the cache, {on_s:.1f} s with it. "
        f"Round {last.round}: {result.speedups[-1]:.1f} times faster. "
        f"cache_hit_ratio from round 2 on: {result.later_hit_ratio:.3f}"
    )


def _table(title: str) -> Table:
    # Narrow enough for a terminal of 80 columns.
    return Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )


def _add_columns(table: Table, first: str, *times: str) -> None:
    table.add_column(first)
    for name in ("prompt\ntokens", *times):
        table.add_column(name, justify="right")
    for tier in ("HBM", "DRAM", "SSD"):
        table.add_column(f"from\n{tier}", justify="right")
    table.add_column("hit\nratio", justify="right")
    table.add_column("node")
    table.add_column("reason")


def _cache_cells(turn: TurnRecord) -> Iterator[str]:
    cached = turn.cached
    for tokens in (cached.hbm, cached.dram, cached.ssd):
        yield str(tokens) if tokens else "-"
    yield f"{turn.hit_ratio:.3f}"
    yield turn.node_id or "-"
    yield turn.reason or "-"
