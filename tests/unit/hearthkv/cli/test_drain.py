"""`hearthkv drain` tells a node to leave and shows how many sessions are left."""

from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from hearthkv.cli.arguments import DrainOptions
from hearthkv.cli.drain import run
from hearthkv.client.blocking import LoopThread
from hearthkv.core.errors import BadInputError, PeerError, PeerRefusedError
from hearthkv.v1 import router_pb2
from tests.fakes.router import FakeRouter, endpoint
from tests.fakes.servers import serving


class DrainingRouter(FakeRouter):
    """Its node has a session less whenever it is asked."""

    def __init__(self, *counts: int) -> None:
        super().__init__(endpoint("n", "127.0.0.1:7500"))
        self.counts = list(counts)

    async def ListNodes(self, request, context):  # noqa: N802
        (node,) = self.nodes
        status = router_pb2.NodeStatus(endpoint=node, sessions=self.counts.pop(0))
        return router_pb2.ListNodesResponse(nodes=[status])


def drain(router: str, node: str = "n", *, cancel: bool = False, wait: bool = False) -> int:
    return run(DrainOptions(node, router, cancel=cancel, wait=wait))


@pytest.fixture
def router() -> FakeRouter:
    return DrainingRouter(1, 0)


@pytest.fixture
def address(router: FakeRouter) -> Iterator[str]:
    thread, stack = LoopThread(), AsyncExitStack()
    try:
        yield thread.run(stack.enter_async_context(serving(router)))
    finally:
        thread.run(stack.aclose())
        thread.close()


def test_a_node_is_told_to_leave(router: FakeRouter, address: str, capsys):
    assert drain(address) == 0
    assert router.drains == [("n", False)]
    assert capsys.readouterr().out.splitlines() == [
        "n gets no new sessions, and hands over those that it has.",
        "n: 2 sessions left",
    ]


def test_a_node_may_stay_after_all(router: FakeRouter, address: str, capsys):
    assert drain(address, cancel=True) == 0
    assert router.drains == [("n", True)]
    assert capsys.readouterr().out == "n stays.\n"


def test_who_waits_sees_the_sessions_go(address: str, capsys):
    assert drain(address, wait=True) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "n: 2 sessions left",
        "n: 1 session left",
        "n: 0 sessions left",
        "n can be stopped.",
    ]


def test_a_node_that_nobody_knows_is_trouble(address: str):
    with pytest.raises(PeerRefusedError, match="NOT_FOUND"):
        drain(address, "other")


def test_a_router_that_is_not_there_is_trouble():
    with pytest.raises(PeerError, match=r"127\.0\.0\.1:1"):
        drain("127.0.0.1:1")


def test_a_name_that_is_none_is_trouble():
    with pytest.raises(BadInputError, match="node_id"):
        drain("127.0.0.1:1", "no name")
