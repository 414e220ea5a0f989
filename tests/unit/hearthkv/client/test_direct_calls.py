"""Tests of hearthkv/client/direct_calls.py."""

from collections.abc import Awaitable, Callable

import grpc
import pytest

from hearthkv.client.channels import Channels
from hearthkv.client.deadline import Deadline
from hearthkv.client.direct_calls import DirectCalls, is_not_served, is_stale
from hearthkv.core.block_io import ReadEnd, WriteStart, WriteStatus
from hearthkv.core.clock import ManualClock
from hearthkv.core.direct_path import Located, LocateQuery, Reservation, ReserveQuery
from hearthkv.core.errors import (
    PeerContractError,
    PeerError,
    PeerRefusedError,
    PeerTimeoutError,
    PeerUnreachableError,
)
from tests.fakes.direct_node import STALE, FakeDirectNode
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode
from tests.fakes.servers import serving
from tests.unit.hearthkv.client.client_kit import (
    BLOCK_BYTES,
    KEYS,
    PATIENT,
    PAYLOADS,
    SPEC,
    calls_of,
)

SOON = Deadline(20.0)
AT_ONCE = Deadline(0.2)


def direct_calls(channels: Channels, address: str) -> DirectCalls:
    return DirectCalls(address, channels.channel(address), calls_of(ManualClock()), PATIENT)


def where(proof: bytes) -> LocateQuery:
    return LocateQuery(proof, SPEC.namespace_id, KEYS, 0, None)


def room(proof: bytes) -> ReserveQuery:
    return ReserveQuery(proof, WriteStart(SPEC, None), KEYS.slice(0, 1), b"", (1,))


async def test_a_client_finds_the_proof_and_then_the_stores(
    channels: Channels, direct_node: FakeDirectNode
):
    async with serving(FakeNode(), direct=direct_node) as address:
        calls = direct_calls(channels, address)
        asked = await calls.attach(b"", SOON)
        assert (asked.proof_path, asked.attachment) == (str(direct_node.proof_path), None)
        shown = await calls.attach(direct_node.proof, SOON)
        assert shown.attachment is not None
        assert shown.attachment.ssd_dir == str(direct_node.ssd_dir)


async def test_a_prefix_is_located(channels: Channels, direct_node: FakeDirectNode):
    ref = direct_node.hold_in_redis(SPEC, KEYS[0], PAYLOADS[0])
    async with serving(FakeNode(), direct=direct_node) as address:
        calls = direct_calls(channels, address)
        located = await calls.locate(where(direct_node.proof), BLOCK_BYTES, SOON)
    assert located == Located((direct_node.blocks[ref.key],), ReadEnd.MISS)


async def test_room_is_kept_filled_and_held(channels: Channels, direct_node: FakeDirectNode):
    async with serving(FakeNode(), direct=direct_node) as address:
        calls, proof = direct_calls(channels, address), direct_node.proof
        reservation = await calls.reserve(room(proof), SOON)
        assert isinstance(reservation, Reservation)
        name = direct_node.names.reserved(SPEC.namespace_id, KEYS[0], 1)
        direct_node.put(0, name, b"x")
        direct_node.servers[0].command("EXPIRE", name, "30")
        statuses = await calls.commit(proof, reservation.reservation_id, 1, SOON)
        assert statuses == [WriteStatus.STORED]


async def test_room_is_given_up(channels: Channels, direct_node: FakeDirectNode):
    async with serving(FakeNode(), direct=direct_node) as address:
        await direct_calls(channels, address).abort(direct_node.proof, "r", SOON)
    assert direct_node.aborted == ["r"]


async def test_a_commit_has_one_status_a_copy(channels: Channels, direct_node: FakeDirectNode):
    direct_node._reserved["r"] = []
    async with serving(FakeNode(), direct=direct_node) as address:
        with pytest.raises(PeerContractError, match="commit has 0 statuses, must have 1"):
            await direct_calls(channels, address).commit(direct_node.proof, "r", 1, SOON)


CALLS: dict[str, Callable[[DirectCalls, Deadline], Awaitable[object]]] = {
    "Attach": lambda calls, deadline: calls.attach(b"", deadline),
    "Locate": lambda calls, deadline: calls.locate(where(b"p"), BLOCK_BYTES, deadline),
    "Reserve": lambda calls, deadline: calls.reserve(room(b"p"), deadline),
    "Commit": lambda calls, deadline: calls.commit(b"p", "r", 1, deadline),
    "Abort": lambda calls, deadline: calls.abort(b"p", "r", deadline),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (Fail(grpc.StatusCode.UNAVAILABLE), PeerUnreachableError),
        (Fail(grpc.StatusCode.INTERNAL), PeerRefusedError),
        (Stall(), PeerTimeoutError),
    ],
    ids=["unavailable", "internal", "stall"],
)
async def test_a_call_fails_as_every_call_to_a_peer(
    channels: Channels,
    direct_node: FakeDirectNode,
    name: str,
    trouble: Stall | Fail,
    error: type[PeerError],
):
    direct_node.troubles[name] = trouble
    deadline = AT_ONCE if isinstance(trouble, Stall) else SOON
    async with serving(FakeNode(), direct=direct_node) as address:
        with pytest.raises(error):
            await CALLS[name](direct_calls(channels, address), deadline)


async def test_a_stale_proof_is_told_from_other_refusals(
    channels: Channels, direct_node: FakeDirectNode
):
    direct_node.troubles["Locate"] = STALE
    async with serving(FakeNode(), direct=direct_node) as address:
        with pytest.raises(PeerRefusedError) as raised:
            await CALLS["Locate"](direct_calls(channels, address), SOON)
    assert (is_stale(raised.value), is_not_served(raised.value)) == (True, False)


async def test_a_node_without_a_direct_path_is_told_too(channels: Channels):
    async with serving(FakeNode()) as address:
        with pytest.raises(PeerRefusedError) as raised:
            await CALLS["Locate"](direct_calls(channels, address), SOON)
    assert (is_stale(raised.value), is_not_served(raised.value)) == (False, True)


def test_other_errors_are_neither():
    error = PeerTimeoutError("late")
    assert (is_stale(error), is_not_served(error)) == (False, False)
