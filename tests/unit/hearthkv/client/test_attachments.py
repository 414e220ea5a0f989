"""Tests of hearthkv/client/attachments.py."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pytest

from hearthkv.client.attachments import NOT_SERVED_S, RETRY_S, THREADS, Attachments
from hearthkv.client.channels import Channels
from hearthkv.client.deadline import Deadline
from hearthkv.client.direct_stores import DirectStores
from hearthkv.client.events import DirectPathClosed, DirectPathOpened
from hearthkv.client.settings import ClientSettings
from hearthkv.core.clock import ManualClock
from hearthkv.core.direct_path import Attachment
from hearthkv.core.errors import DirectPathError, PeerTimeoutError, PeerUnreachableError
from hearthkv.telemetry import Event, NoMeters, Telemetry
from tests.conftest import StartRedis
from tests.fakes.direct_node import FakeDirectNode
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode
from tests.fakes.servers import dead_address, serving
from tests.unit.hearthkv.client.client_kit import PATIENT, attachments, until

SOON = Deadline(20.0)


class Heard(Telemetry):
    """Telemetry that keeps the events."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger("test.client"), NoMeters())
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


@dataclass(frozen=True)
class Rig:
    """The attachments of a client, and the node that it may attach to."""

    reached: Attachments
    address: str
    clock: ManualClock
    heard: Heard

    async def stores(self) -> DirectStores | None:
        return await self.reached.stores(self.address, Deadline(self.clock.now() + 20))

    @property
    def reason(self) -> str:
        (event,) = (each for each in self.heard.events if isinstance(each, DirectPathClosed))
        return event.reason


@asynccontextmanager
async def rig(
    direct: FakeDirectNode | None, settings: ClientSettings = PATIENT
) -> AsyncIterator[Rig]:
    clock, heard, channels = ManualClock(), Heard(), Channels()
    reached = attachments(channels, clock, settings, heard)
    try:
        async with serving(FakeNode(), direct=direct) as address:
            yield Rig(reached, address, clock, heard)
    finally:
        reached.close()
        await channels.close()


async def test_a_node_is_attached_to_once(direct_node: FakeDirectNode):
    async with rig(direct_node) as at:
        stores = await at.stores()
        assert stores is not None
        assert await at.stores() is stores
        assert at.heard.events == [DirectPathOpened(at.address, 1)]
    assert direct_node.calls["Attach"] == 2


async def test_who_comes_while_another_attaches_does_not_wait(direct_node: FakeDirectNode):
    async with rig(direct_node) as at:
        first, second = await asyncio.gather(at.stores(), at.stores())
        assert first is not None
        assert second is None
        assert await at.stores() is first


async def test_who_is_cancelled_while_attaching_leaves_it_to_the_next(direct_node: FakeDirectNode):
    stall = Stall()
    direct_node.troubles["Attach"] = stall
    async with rig(direct_node) as at:
        attaching = asyncio.create_task(at.stores())
        await stall.begun.wait()
        attaching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attaching
        del direct_node.troubles["Attach"]
        assert await at.stores() is not None


async def test_a_node_without_a_direct_path_is_asked_once_an_hour():
    async with rig(None) as at:
        assert await at.stores() is None
        assert "UNIMPLEMENTED" in at.reason
        at.clock.advance(NOT_SERVED_S - 1)
        assert await at.stores() is None
        assert len(at.heard.events) == 1
        at.clock.advance(1)
        assert await at.stores() is None
        assert len(at.heard.events) == 2


async def test_what_is_refused_is_tried_again_after_a_while(direct_node: FakeDirectNode):
    direct_node.proof_path.chmod(0o644)
    async with rig(direct_node) as at:
        assert await at.stores() is None
        direct_node.proof_path.chmod(0o600)
        at.clock.advance(RETRY_S - 1)
        assert await at.stores() is None
        at.clock.advance(1)
        assert await at.stores() is not None


async def test_a_client_may_be_told_not_to(direct_node: FakeDirectNode):
    async with rig(direct_node, replace(PATIENT, direct_path=False)) as at:
        assert await at.stores() is None
        assert at.heard.events == []
    assert direct_node.calls.total() == 0


def elsewhere(direct: FakeDirectNode) -> None:
    direct.proof_path.unlink()


def another_proof(direct: FakeDirectNode) -> None:
    direct.proof_path.write_bytes(b"x" * 32)


def no_epoch(direct: FakeDirectNode) -> None:
    direct.servers[0].command("DEL", direct.names.epoch)


def epoch_is_a_list(direct: FakeDirectNode) -> None:
    no_epoch(direct)
    direct.servers[0].command("LPUSH", direct.names.epoch, "x")


def of_another_node(direct: FakeDirectNode) -> None:
    direct.servers[0].command("SET", direct.names.epoch, "0" * 16)


def bent(**fields: object):
    def trouble(direct: FakeDirectNode) -> None:
        direct.bend_attachment = lambda honest: replace(honest, **fields)

    return trouble


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (elsewhere, "proof can't be read here"),
        (another_proof, "FAILED_PRECONDITION"),
        (no_epoch, "has epoch None, must have b'0000000000000007'"),
        (epoch_is_a_list, "does not tell its epoch: WRONGTYPE"),
        (of_another_node, "has epoch b'0000000000000000'"),
        (bent(node_id="other"), "has epoch None"),
        (bent(epoch=8), "must have b'0000000000000008'"),
        (bent(redis_urls=("unix:///nowhere.sock",)), "can't be reached from here"),
        (bent(redis_urls=("http://x",)), "can't be understood"),
        (bent(ssd_dir="relative"), "must be absolute or empty"),
        (bent(node_id=""), "sent what can't be used"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_node_that_is_not_what_it_says_is_not_direct(
    direct_node: FakeDirectNode, trouble, reason: str
):
    trouble(direct_node)
    async with rig(direct_node) as at:
        assert await at.stores() is None
        assert reason in at.reason


async def test_a_node_that_takes_the_proof_and_says_nothing_is_not_direct(
    direct_node: FakeDirectNode,
):
    direct_node.bend_attachment = lambda _: None  # type: ignore[assignment, return-value]
    async with rig(direct_node) as at:
        assert await at.stores() is None
        assert "does not open its stores" in at.reason


async def test_a_server_that_hangs_is_not_waited_for(tmp_path: Path, start_redis: StartRedis):
    server = start_redis()
    direct_node = FakeDirectNode(tmp_path, server)
    server.freeze()
    async with rig(direct_node, replace(PATIENT, stall_s=1)) as at:
        assert await at.stores() is None
        assert "no epoch was told within 1 s" in at.reason
    server.thaw()


async def test_a_proof_that_can_not_be_read_in_time_is_not_waited_for(
    direct_node: FakeDirectNode,
):
    async with rig(direct_node, replace(PATIENT, stall_s=1)) as at:
        stores = await at.stores()
        assert stores is not None
        release = threading.Event()
        hanging = [asyncio.create_task(stores.threads.run(release.wait)) for _ in range(THREADS)]
        at.reached.forget(stores)
        assert await at.stores() is None
        assert "proof was not read within 1 s" in at.reason
        release.set()
        await asyncio.gather(*hanging)


async def test_a_caller_without_time_does_not_close_the_way_for_others(
    tmp_path: Path, start_redis: StartRedis
):
    server = start_redis()
    direct_node = FakeDirectNode(tmp_path, server)
    async with rig(direct_node, replace(PATIENT, stall_s=1)) as at:
        server.freeze()
        over = Deadline(at.clock.now() + 20)
        waiting = asyncio.create_task(at.reached.stores(at.address, over))
        await until(lambda: direct_node.calls["Attach"] == 2)
        at.clock.advance(20)
        assert await waiting is None
        assert at.heard.events == []
        server.thaw()
        assert await at.stores() is not None


@pytest.mark.parametrize("trouble", [Stall(), Fail(grpc.StatusCode.UNAVAILABLE)], ids=repr)
async def test_trouble_of_the_node_itself_is_the_callers_to_know(
    direct_node: FakeDirectNode, trouble: Stall | Fail
):
    direct_node.troubles["Attach"] = trouble
    async with rig(direct_node, replace(PATIENT, stall_s=1)) as at:
        with pytest.raises((PeerTimeoutError, PeerUnreachableError)):
            await at.stores()
        assert at.heard.events == []


async def test_a_node_that_is_forgotten_is_attached_to_anew(direct_node: FakeDirectNode):
    async with rig(direct_node) as at:
        first = await at.stores()
        assert first is not None
        at.reached.forget(first)
        second = await at.stores()
        assert second is not None
        assert (first.is_closed, second.is_closed) == (True, False)


async def test_news_of_an_earlier_attachment_does_not_close_the_next(direct_node: FakeDirectNode):
    async with rig(direct_node) as at:
        first = await at.stores()
        assert first is not None
        at.reached.forget(first)
        second = await at.stores()
        at.reached.forget(first)
        at.reached.refuse(first, DirectPathError("the connection is lost"))
        assert await at.stores() is second


async def test_stores_in_use_may_be_used_to_the_end(direct_node: FakeDirectNode):
    async with rig(direct_node) as at:
        stores = await at.stores()
        assert stores is not None
        with stores.in_use():
            at.reached.refuse(stores, DirectPathError("a block of another load was wrong"))
            assert await at.stores() is None
            await stores.check_epoch()
            assert any(each.is_usable for each in stores.pools[0]._connections)
        assert not any(each.is_usable for each in stores.pools[0]._connections)


async def test_who_attaches_while_the_client_is_closed_gets_nothing(direct_node: FakeDirectNode):
    async with rig(direct_node) as at:

        def close_meanwhile(honest: Attachment) -> Attachment:
            at.reached.close()
            return honest

        direct_node.bend_attachment = close_meanwhile
        assert await at.stores() is None
        assert at.heard.events == [DirectPathOpened(at.address, 1)]


async def test_a_client_that_is_closed_lets_go_of_all(direct_node: FakeDirectNode):
    async with rig(direct_node) as at:
        stores = await at.stores()
        assert stores is not None
        at.reached.close()
        assert stores.is_closed
        assert await at.stores() is None


async def test_a_client_that_never_attached_has_nothing_to_close():
    with dead_address() as address:
        channels = Channels()
        reached = attachments(channels)
        with pytest.raises(PeerUnreachableError):
            await reached.stores(address, SOON)
        reached.close()
        await channels.close()
