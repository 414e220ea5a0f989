"""Tests of hearthkv/client/direct_stores.py."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from hearthkv.client.channels import Channels
from hearthkv.client.direct_calls import DirectCalls
from hearthkv.client.direct_stores import DirectStores
from hearthkv.client.read_threads import ReadThreads
from hearthkv.core.clock import ManualClock
from hearthkv.core.direct_path import Attachment
from hearthkv.core.errors import DirectPathError
from hearthkv.core.session_id import NodeId
from tests.fakes.direct_node import FakeDirectNode
from tests.unit.hearthkv.client.client_kit import PATIENT, calls_of


@pytest.fixture
async def threads() -> AsyncIterator[ReadThreads]:
    threads = ReadThreads(1)
    yield threads
    threads.close()
    await asyncio.sleep(0)  # in which the loop lets go of sockets that were cut


@pytest.fixture
def calls(channels: Channels) -> DirectCalls:
    channel = channels.channel("127.0.0.1:1")
    return DirectCalls("127.0.0.1:1", channel, calls_of(ManualClock()), PATIENT)


def attachment(direct: FakeDirectNode, **fields: object) -> Attachment:
    honest = Attachment(
        node_id=NodeId("fake"),
        epoch=7,
        redis_urls=tuple(server.url for server in direct.servers),
        ssd_dir=str(direct.ssd_dir),
        is_direct_io=False,
    )
    return replace(honest, **fields)


async def test_servers_of_the_right_epoch_are_the_nodes(
    direct_node: FakeDirectNode, calls: DirectCalls, threads: ReadThreads
):
    stores = DirectStores(calls, b"proof", attachment(direct_node), threads)
    await stores.check_epoch()
    assert (len(stores.places), stores.has_files, stores.is_closed) == (1, True, False)
    stores.close()


async def test_servers_of_another_epoch_are_not(
    direct_node: FakeDirectNode, calls: DirectCalls, threads: ReadThreads
):
    stores = DirectStores(calls, b"proof", attachment(direct_node, epoch=6), threads)
    with pytest.raises(DirectPathError, match="must have b'0000000000000006'"):
        await stores.check_epoch()
    stores.close()


async def test_a_node_may_have_no_folder(
    direct_node: FakeDirectNode, calls: DirectCalls, threads: ReadThreads
):
    stores = DirectStores(calls, b"proof", attachment(direct_node, ssd_dir=""), threads)
    assert not stores.has_files


async def test_no_error_shows_a_password(
    direct_node: FakeDirectNode, calls: DirectCalls, threads: ReadThreads
):
    secret = attachment(direct_node, redis_urls=("redis://user:hunter2@127.0.0.1:1/0",))
    assert "hunter2" not in repr(secret)
    stores = DirectStores(calls, b"proof", secret, threads)
    with pytest.raises(DirectPathError, match="can't be reached") as raised:
        await stores.check_epoch()
    assert "hunter2" not in str(raised.value)
    stores.close()


async def test_what_is_closed_while_in_use_opens_nothing_any_more(
    direct_node: FakeDirectNode, calls: DirectCalls, threads: ReadThreads
):
    stores = DirectStores(calls, b"proof", attachment(direct_node), threads)
    with stores.in_use():
        await stores.check_epoch()
        stores.close()
        with pytest.raises(DirectPathError, match="is closed"):
            await stores.check_epoch()
    assert not any(each.is_usable for each in stores.pools[0]._connections)
