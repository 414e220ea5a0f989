"""The tables of `hearthkv status` show what a router knows."""

import pytest
from rich.console import Console
from rich.table import Table

from hearthkv.cli.arguments import StatusOptions
from hearthkv.cli.status import MIB, addresses_table, nodes_table, run, sessions_table
from hearthkv.core.errors import BadInputError, PeerError
from hearthkv.core.routing import NodeEndpoint, NodeLoad, NodeState, NodeStatus, SessionStatus
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier, TierUsage


def shown_lines(table: Table, width: int) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return capture.get().splitlines()


def shown(table: Table) -> str:
    return " ".join(" ".join(shown_lines(table, width=160)).split())


def test_a_node_is_shown_with_what_it_holds():
    endpoint = NodeEndpoint(NodeId("node-1"), "127.0.0.1:7500", "http://127.0.0.1:8000")
    load = NodeLoad(
        tiers=(
            TierUsage(Tier.DRAM, 3 * MIB, 0, 10 * MIB, 4),
            TierUsage(Tier.SSD, 0, 0, 20 * MIB, 0, "read-only file system"),
        )
    )
    text = shown(nodes_table([NodeStatus(endpoint, load, 4, 2, 0.34, 8000)]))
    assert ("node-1 live 3/10 0/20 4 2 8000 0.3 s read-only file system") in text


def test_a_node_that_has_said_nothing_yet_is_shown_too():
    endpoint = NodeEndpoint(NodeId("node-1"), "127.0.0.1:7500", state=NodeState.SUSPECT)
    status = NodeStatus(endpoint, NodeLoad(), 0, 0, 4.0)
    text = shown(nodes_table([status]))
    assert "node-1 suspect - - 0 0 0 4.0 s" in text
    assert "node-1 127.0.0.1:7500 -" in shown(addresses_table([status]))


def test_no_address_is_cut_in_a_terminal_of_80_columns():
    address, engine_url = "node-1.cluster.internal:7500", "http://engine-1.cluster.internal:8000"
    endpoint = NodeEndpoint(NodeId("node-1"), address, engine_url, state=NodeState.DRAINING)
    load = NodeLoad(tiers=(TierUsage(Tier.DRAM, 65536 * MIB, 0, 65536 * MIB, 9),))
    status = NodeStatus(endpoint, load, 1_000_000, 10_000, 0.34, 120_000)
    lines = shown_lines(addresses_table([status]), width=80)
    assert any(address in line and engine_url in line for line in lines)
    numbers = "draining 65536/65536 - 1000000 10000 120000 0.3 s"
    assert numbers in " ".join(" ".join(shown_lines(nodes_table([status]), width=80)).split())


def test_a_session_is_shown_with_its_last_turn():
    session = SessionStatus(SessionId("mine"), NodeId("node-1"), 10, 2466, 149, 7.4)
    assert "mine node-1 10 2466 149 7 s" in shown(sessions_table([session]))


def test_a_router_that_is_not_there_is_trouble():
    with pytest.raises(PeerError, match=r"127\.0\.0\.1:1"):
        run(StatusOptions("127.0.0.1:1"))


def test_an_address_that_is_none_is_trouble():
    with pytest.raises(BadInputError):
        run(StatusOptions("nowhere"))
