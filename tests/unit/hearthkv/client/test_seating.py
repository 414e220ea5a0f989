"""Tests of hearthkv/client/seating.py: no block that is held is lost by telling a router little."""

import grpc
import pytest

from hearthkv.client.outcome import MissReason
from hearthkv.core.block_key import KeyChain, PackedKeys
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.routing import CacheHint
from hearthkv.core.tier import TierCounts
from hearthkv.v1 import router_pb2
from tests.fakes.misbehaviour import Fail
from tests.fakes.node import FakeNode
from tests.fakes.router import FakeRouter, endpoint
from tests.fakes.servers import serving
from tests.unit.hearthkv.client.client_kit import client

SPEC = NamespaceSpec(b"n" * 16, block_size=1, block_bytes=8)
TOKENS = range(3000)
KEYS = KeyChain(SPEC.namespace_id, SPEC.block_size).keys_of(TOKENS)


class MatchingRouter(FakeRouter):
    """Finds in its one node what the keys that it is told can find."""

    def __init__(self, node: FakeNode, address: str) -> None:
        super().__init__(endpoint("a", address))
        self.node = node

    async def Route(self, request, context):  # noqa: N802
        keys = PackedKeys(request.keys.keys, request.keys.key_width)
        positions = list(request.key_positions) or list(range(1, len(keys) + 1))
        held = [
            position
            for key, position in zip(keys, positions, strict=True)
            if (request.namespace_id, key) in self.node.blocks
        ]
        self.matched_blocks = max(held, default=0)
        return await super().Route(request, context)


def holding(blocks: int) -> FakeNode:
    node = FakeNode()
    for index in range(blocks):
        node.hold(SPEC.namespace_id, KEYS[index], b"%8d" % index)
    return node


@pytest.mark.parametrize("blocks", [0, 1, 15, 16, 17, 255, 1025, 1999, 2000, 2999, 3000])
async def test_whatever_a_node_holds_of_a_long_prompt_is_matched(blocks):
    node = holding(blocks)
    async with (
        serving(node) as node_address,
        serving(router := MatchingRouter(node, node_address)) as address,
        client(address) as kv,
    ):
        turn = await kv.begin_turn("s", SPEC, TOKENS, cache_hint="reuse")
        buffer = bytearray(8 * 3000)
        loaded = await turn.load_into(buffer, blocks=turn.matched.total)
    assert turn.matched == TierCounts(dram=blocks)
    assert turn.miss_reason is (None if blocks else MissReason.NOT_HELD)
    assert loaded.blocks == blocks
    assert router.last_route is not None
    assert len(router.last_route.key_positions) <= 257


@pytest.mark.parametrize("held", [2000, 1930])
async def test_a_turn_that_goes_on_where_the_last_one_ended_asks_the_router_alone(held):
    node = holding(held)
    async with (
        serving(node) as node_address,
        serving(MatchingRouter(node, node_address)) as address,
        client(address) as kv,
    ):
        await kv.begin_turn("s", SPEC, TOKENS[:2000], cache_hint="reuse")
        node.calls.clear()
        turn = await kv.begin_turn("s", SPEC, TOKENS, cache_hint="reuse")
    assert turn.matched == TierCounts(dram=held)
    assert node.calls["Match"] == 0


async def test_a_node_that_does_not_answer_leaves_what_the_router_knew():
    node = holding(1000)
    node.troubles["Match"] = Fail(grpc.StatusCode.INTERNAL)
    async with (
        serving(node) as node_address,
        serving(MatchingRouter(node, node_address)) as address,
        client(address) as kv,
    ):
        turn = await kv.begin_turn("s", SPEC, TOKENS, cache_hint="reuse")
    assert turn.matched == TierCounts(dram=992)
    assert turn.miss_reason is None


async def test_who_leaves_the_cache_alone_tells_nothing_of_the_prompt():
    node = holding(10)
    async with (
        serving(node) as node_address,
        serving(router := MatchingRouter(node, node_address)) as address,
        client(address) as kv,
    ):
        turn = await kv.begin_turn("s", SPEC, TOKENS, cache_hint=CacheHint.BYPASS)
        beside = await kv.begin_turn("s", SPEC, TOKENS, cache_hint="bypass", node=node_address)
    assert router.last_route is not None
    assert router.last_route.keys.keys == b""
    assert turn.miss_reason is beside.miss_reason is MissReason.BYPASS
    assert not node.calls


async def test_what_the_router_has_ordered_is_on_its_way():
    node = holding(10)
    async with (
        serving(node) as node_address,
        serving(router := MatchingRouter(node, node_address)) as address,
        client(address) as kv,
    ):
        source = endpoint("b", "127.0.0.1:7500")
        router.pull_from = [router_pb2.PullSource(node=source, blocks=2000)]
        turn = await kv.begin_turn("s", SPEC, TOKENS, cache_hint="reuse")
    assert turn._seat.arriving_blocks == 2000
    assert turn._seat.source_address == "127.0.0.1:7500"
    assert turn.matched == TierCounts(dram=10)
