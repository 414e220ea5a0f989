"""Tests of hearthkv/client/pull_call.py, and of how a node client makes the call."""

import grpc
import pytest

from hearthkv.client.channels import Channels
from hearthkv.core.errors import PeerContractError, PeerRefusedError, PeerTimeoutError
from hearthkv.core.pulls import LineageQuery, PullEnd, PullProgress, PullQuery
from hearthkv.v1 import block_pb2
from hearthkv.v1 import cache_node_pb2 as pb2
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode
from tests.fakes.servers import serving
from tests.unit.hearthkv.client.client_kit import KEYS, SPEC, node_client

QUERY = PullQuery(SPEC.namespace_id, KEYS, KEYS[len(KEYS) - 1], "10.0.0.1:1")
TIP = LineageQuery(SPEC.namespace_id, KEYS[len(KEYS) - 1])


async def test_a_pull_tells_how_far_it_is(channels: Channels):
    node = FakeNode()
    node.pull_answers = [
        pb2.PullResponse(held_blocks=2, pulled_blocks=1),
        pb2.PullResponse(held_blocks=5, pulled_blocks=4, end=pb2.PULL_END_COMPLETE),
    ]
    async with serving(node) as address:
        with node_client(channels, address).pull(QUERY, 20.0) as call:
            assert await call.next() == PullProgress(2, 1)
            assert await call.next() == PullProgress(5, 4, PullEnd.COMPLETE)
    assert node.pulls[0].source_address == "10.0.0.1:1"


async def test_a_pull_that_ends_without_a_reason_breaks_the_contract(channels: Channels):
    async with serving(FakeNode()) as address:
        with (
            node_client(channels, address).pull(QUERY, 20.0) as call,
            pytest.raises(PeerContractError, match="pull ends without a reason"),
        ):
            await call.next()


async def test_a_pull_that_is_refused_says_so(channels: Channels):
    node = FakeNode()
    node.pull_answers = [Fail(grpc.StatusCode.INVALID_ARGUMENT, is_answer=True)]
    async with serving(node) as address:
        with (
            node_client(channels, address).pull(QUERY, 20.0) as call,
            pytest.raises(PeerRefusedError),
        ):
            await call.next()


async def test_a_pull_has_an_end(channels: Channels):
    node = FakeNode()
    node.pull_answers = [Stall()]
    async with serving(node) as address:
        with (
            node_client(channels, address).pull(QUERY, 0.3) as call,
            pytest.raises(PeerTimeoutError),
        ):
            await call.next()


async def test_who_leaves_ends_the_call(channels: Channels):
    node = FakeNode()
    stall = Stall()
    node.pull_answers = [pb2.PullResponse(held_blocks=1), stall]
    async with serving(node) as address:
        with node_client(channels, address).pull(QUERY, 20.0) as call:
            await call.next()
            await stall.begun.wait()
        await stall.ended.wait()


def lineage(last: bytes, namespace_id: bytes = SPEC.namespace_id) -> pb2.LineageResponse:
    return pb2.LineageResponse(
        namespace=block_pb2.NamespaceSpec(
            namespace_id=namespace_id, block_size=4, block_bytes=3000
        ),
        keys=block_pb2.PackedKeys(keys=KEYS.slice(0, 2).packed + last, key_width=KEYS.width),
    )


async def test_a_lineage_is_that_of_the_tip(channels: Channels):
    node = FakeNode()
    async with serving(node) as address:
        client = node_client(channels, address)
        assert not (await client.lineage(TIP)).keys
        node.lineage = lineage(TIP.tip_key)
        answer = await client.lineage(TIP)
        assert (answer.spec, len(answer.keys)) == (SPEC, 3)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lineage(b"x" * KEYS.width), "ends in another block"),
        (lineage(TIP.tip_key, b"m" * 16), "is of another namespace"),
        (pb2.LineageResponse(keys=lineage(TIP.tip_key).keys), "is of another namespace"),
    ],
    ids=["other-tip", "other-namespace", "none"],
)
async def test_a_lineage_of_something_else_breaks_the_contract(
    channels: Channels, answer: pb2.LineageResponse, text: str
):
    node = FakeNode()
    node.lineage = answer
    async with serving(node) as address:
        with pytest.raises(PeerContractError, match=text):
            await node_client(channels, address).lineage(TIP)
