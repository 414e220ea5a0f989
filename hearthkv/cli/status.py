"""`hearthkv status`: shows a router's nodes and sessions as tables."""

import asyncio
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from hearthkv.cli.arguments import StatusOptions
from hearthkv.client.kv import connect
from hearthkv.core.routing import NodeStatus, SessionStatus
from hearthkv.core.tier import Tier, TierUsage

SESSIONS_SHOWN = 20

MIB = 1024**2


def run(options: StatusOptions) -> int:
    """
    Print the tables and return the exit code.

    Raises:
        BadInputError: If the router's address is malformed.
        PeerError: If the router does not answer.
    """
    nodes, sessions = asyncio.run(_ask(options.router))
    console = Console()
    console.print(nodes_table(nodes))
    console.print(addresses_table(nodes))
    console.print(sessions_table(sessions))
    return 0


def nodes_table(nodes: Sequence[NodeStatus]) -> Table:
    """Return a row for every node."""
    table = _table("Nodes")
    for name in ("node", "state"):
        table.add_column(name, overflow="fold")
    for name in ("DRAM, MiB\nused/limit", "SSD, MiB\nused/limit", "blocks", "sessions"):
        table.add_column(name, justify="right")
    for name in ("tokens to\ncompute", "silent"):
        table.add_column(name, justify="right")
    for node in nodes:
        usage = {tier.tier: tier for tier in node.load.tiers}
        table.add_row(
            node.endpoint.node_id,
            node.endpoint.state.value,
            _usage(usage.get(Tier.DRAM)),
            _usage(usage.get(Tier.SSD)),
            str(node.indexed_blocks),
            str(node.sessions),
            str(node.uncached_tokens),
            f"{node.silence_s:.1f} s",
        )
    return table


def addresses_table(nodes: Sequence[NodeStatus]) -> Table:
    """Return a row for every node: where it is. Folded and never cut, so that it can be copied."""
    table = _table("Addresses")
    for name in ("node", "cache node", "engine"):
        table.add_column(name, overflow="fold")
    for node in nodes:
        endpoint = node.endpoint
        table.add_row(endpoint.node_id, endpoint.address, endpoint.engine_url or "-")
    return table


def sessions_table(sessions: Sequence[SessionStatus]) -> Table:
    """Return a row for every session, the most recent first."""
    table = _table(f"Sessions (the last {SESSIONS_SHOWN})")
    for name in ("session", "node"):
        table.add_column(name)
    for name in ("turns", "prompt tokens", "matched blocks", "idle"):
        table.add_column(name, justify="right")
    for session in sessions:
        table.add_row(
            session.session_id,
            session.node_id,
            str(session.turns),
            str(session.prompt_tokens),
            str(session.matched_blocks),
            f"{session.idle_s:.0f} s",
        )
    return table


async def _ask(router: str) -> tuple[Sequence[NodeStatus], Sequence[SessionStatus]]:
    async with connect(router) as kv:
        return await kv.list_nodes(), await kv.list_sessions(SESSIONS_SHOWN)


def _usage(usage: TierUsage | None) -> str:
    if usage is None:
        return "-"
    text = f"{usage.used_bytes / MIB:.0f}/{usage.limit_bytes / MIB:.0f}"
    return f"{text}\n{usage.trouble}" if usage.trouble else text


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
