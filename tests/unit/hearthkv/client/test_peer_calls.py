"""Tests of hearthkv/client/peer_calls.py."""

import asyncio
import logging

import grpc
import pytest
from grpc import aio

from hearthkv.client.channels import Channels
from hearthkv.client.peer_calls import understood
from hearthkv.core.block_io import MatchQuery
from hearthkv.core.clock import ManualClock
from hearthkv.core.errors import (
    BadInputError,
    PeerContractError,
    PeerError,
    PeerRefusedError,
    PeerTimeoutError,
    PeerUnreachableError,
)
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode
from tests.fakes.servers import dead_address, serving, silent_address
from tests.unit.hearthkv.client.client_kit import (
    IMPATIENT,
    KEYS,
    SPEC,
    calls_of,
    node_client,
)

A = "10.0.0.1:7500"

UNREACHABLE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
ERRORS = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]


def expected_type(code: grpc.StatusCode) -> type[PeerError]:
    if code in UNREACHABLE:
        return PeerUnreachableError
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return PeerTimeoutError
    return PeerRefusedError


@pytest.mark.parametrize("code", ERRORS, ids=[code.name for code in ERRORS])
async def test_every_status_has_its_error(channels: Channels, code: grpc.StatusCode):
    node = FakeNode()
    node.troubles["Describe"] = Fail(code)
    async with serving(node) as address:
        with pytest.raises(PeerError, match=address) as caught:
            await node_client(channels, address).describe()
    assert type(caught.value) is expected_type(code)


async def test_a_server_that_says_it_is_unavailable_was_reached(channels: Channels):
    node = FakeNode()
    node.troubles["Describe"] = Fail(grpc.StatusCode.UNAVAILABLE, is_answer=True)
    async with serving(node) as address:
        client = node_client(channels, address)
        with pytest.raises(PeerRefusedError, match="answers UNAVAILABLE: as the test") as caught:
            await client.describe()
    assert caught.value.status == "UNAVAILABLE"
    assert client.calls.skipped() == frozenset()


async def test_a_peer_that_refuses_connections_is_unreachable(channels: Channels):
    with dead_address() as address, pytest.raises(PeerUnreachableError):
        await node_client(channels, address).describe()


async def test_a_peer_that_says_nothing_is_late(channels: Channels):
    with silent_address() as address, pytest.raises(PeerError) as caught:
        await node_client(channels, address, IMPATIENT).describe()
    assert isinstance(caught.value, PeerTimeoutError | PeerUnreachableError)


async def test_a_peer_that_failed_is_not_called_until_its_cooldown_is_over(channels: Channels):
    node, clock = FakeNode(), ManualClock()
    node.troubles["Describe"] = Stall()
    async with serving(node) as address:
        client = node_client(channels, address, IMPATIENT, clock)
        with pytest.raises(PeerTimeoutError):
            await client.describe()
        with pytest.raises(PeerUnreachableError, match="left alone for now"):
            await client.describe()
        assert node.calls["Describe"] == 1
        del node.troubles["Describe"]
        clock.advance(1.0)
        assert (await client.describe()).node_id == "fake"


async def test_a_refusal_does_not_keep_others_away(channels: Channels):
    node = FakeNode()
    node.troubles["Describe"] = Fail(grpc.StatusCode.INTERNAL)
    async with serving(node) as address:
        client = node_client(channels, address)
        for _ in range(2):
            with pytest.raises(PeerRefusedError):
                await client.describe()
    assert node.calls["Describe"] == 2


async def test_an_answer_that_is_no_message_breaks_the_contract(
    channels: Channels, caplog: pytest.LogCaptureFixture
):
    async def gibberish(request: bytes, context: object) -> bytes:
        return b"\xff\xff\xff"

    server = aio.server()
    methods = {"Match": grpc.unary_unary_rpc_method_handler(gibberish)}
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("hearthkv.v1.CacheNode", methods)]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    with caplog.at_level(logging.CRITICAL), pytest.raises(PeerContractError):
        await node_client(channels, f"127.0.0.1:{port}").match(MatchQuery(SPEC.namespace_id, KEYS))
    await server.stop(grace=None)


def test_a_message_is_itself():
    assert understood("message") == "message"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (BadInputError("keys are odd"), PeerContractError),
        (TimeoutError(), PeerTimeoutError),
        (PeerContractError("no header"), PeerContractError),
    ],
    ids=["undecodable", "stalled", "contract"],
)
def test_what_a_call_meets_is_translated(raised: Exception, expected: type[PeerError]):
    with pytest.raises(expected), calls_of(ManualClock()).call(A):
        raise raised


async def test_a_closed_channel_is_no_cancelled_task():
    with pytest.raises(PeerUnreachableError, match="was closed"), calls_of(ManualClock()).call(A):
        raise asyncio.CancelledError


async def test_cancelling_passes_through_and_blames_nobody(channels: Channels):
    node, stall = FakeNode(), Stall()
    node.troubles["Describe"] = stall
    async with serving(node) as address:
        client = node_client(channels, address)
        task = asyncio.create_task(client.describe())
        await stall.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await stall.ended.wait()
    assert client.calls.skipped() == frozenset()


def test_a_client_that_is_closed_calls_nobody():
    calls = calls_of(ManualClock())
    calls.close()
    with pytest.raises(PeerUnreachableError, match="client is closed"), calls.call(A):
        pytest.fail("the call was let through")


def test_an_answer_in_the_middle_of_a_call_ends_the_trouble():
    calls = calls_of(ManualClock())
    with pytest.raises(PeerUnreachableError), calls.call(A):
        raise PeerUnreachableError("gone")
    assert calls.skipped() == {A}
    calls.answered(A)
    assert calls.skipped() == frozenset()


def test_who_only_looks_takes_no_place_of_a_probe():
    clock = ManualClock()
    calls = calls_of(clock)
    calls.check(A)
    with pytest.raises(PeerError), calls.call(A):
        raise PeerUnreachableError("gone")
    with pytest.raises(PeerUnreachableError, match="left alone for now"):
        calls.check(A)
    clock.advance(1.0)
    calls.check(A)
    with calls.call(A):
        pass
    calls.close()
    with pytest.raises(PeerUnreachableError, match="client is closed"):
        calls.check(A)
