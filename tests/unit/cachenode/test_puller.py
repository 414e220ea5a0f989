"""Tests of `cachenode.puller`: nodes that fetch from each other, and sources that fail them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import grpc
import pytest

from cachenode.puller import PullLimits
from hearthkv.core.block_io import DropBlocks, MatchQuery, ReadEnd
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.pulls import PullEnd, PullProgress, PullQuery
from hearthkv.core.routing import PullOrder
from hearthkv.core.session_id import SessionId
from hearthkv.v1 import block_pb2, cache_node_pb2
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode
from tests.fakes.servers import dead_address, serving
from tests.node_rig import SPEC, STORED_BYTES, Rig, payload_of, prompt
from tests.peer_rig import PeerRig, open_peer, pull_of, pulled

BLOCKS = 40
ONE_RUN = PullLimits(runs_max=1, stall_s=20)
HASTY = PullLimits(stall_s=0.2, pull_s=20)


@asynccontextmanager
async def pair(limits: PullLimits | None = None) -> AsyncIterator[tuple[PeerRig, PeerRig]]:
    async with open_peer("source") as source, open_peer("puller", limits=limits) as puller:
        yield source, puller


def order_of(keys: list[bytes], source: str) -> PullOrder:
    return PullOrder(SPEC.namespace_id, keys[-1], len(keys), source, SessionId("s"))


async def all_over(rig: Rig) -> None:
    async with asyncio.timeout(20):
        while rig.node.pulls.in_flight:  # noqa: ASYNC110 - a pull in the background has no event
            await asyncio.sleep(0.01)


def count_of(rig: Rig, outcome: str) -> float:
    return rig.meters.value("cachenode_pulls_total", outcome=outcome)


@pytest.mark.parametrize("is_tip_only", [False, True], ids=["keys", "tip"])
async def test_a_prefix_is_fetched_and_is_right(is_tip_only: bool):
    keys = prompt(BLOCKS)
    async with pair() as (source, puller):
        await source.write(keys)
        last = await pulled(puller, pull_of(keys, source.address, is_tip_only=is_tip_only))
        assert last == PullProgress(BLOCKS, BLOCKS, PullEnd.COMPLETE)
        assert await puller.read(keys) == (BLOCKS, ReadEnd.COMPLETE)
        assert puller.meters.value("cachenode_pulled_bytes_total") == BLOCKS * SPEC.block_bytes


async def test_only_what_is_lacking_is_fetched():
    keys = prompt(BLOCKS)
    async with pair() as (source, puller):
        await source.write(keys)
        await puller.write(keys[:30])
        last = await pulled(puller, pull_of(keys, source.address))
        assert last == PullProgress(BLOCKS, 10, PullEnd.COMPLETE)
        assert source.meters.value("cachenode_asked_blocks_total") == 10


async def test_what_is_held_is_not_asked_for():
    keys = prompt(3)
    async with pair() as (_, puller):
        await puller.write(keys)
        with dead_address() as nowhere:
            query = pull_of(keys, nowhere, session="s")
            assert await pulled(puller, query) == PullProgress(3, 0, PullEnd.COMPLETE)
            tip = pull_of(keys, nowhere, is_tip_only=True)
            assert await pulled(puller, tip) == PullProgress(3, 0, PullEnd.COMPLETE)
        assert [estate.name for estate in puller.node.catalog.estates()] == ["s"]


async def test_a_pull_goes_as_far_as_the_source_does():
    keys = prompt(BLOCKS)
    async with pair() as (source, puller):
        await source.write(keys[:25])
        assert await pulled(puller, pull_of(keys, source.address)) == PullProgress(
            25, 25, PullEnd.MISS
        )
        assert await puller.read(keys) == (25, ReadEnd.MISS)


async def test_an_unknown_tip_is_a_miss():
    async with pair() as (source, puller):
        query = pull_of(prompt(3), source.address, is_tip_only=True)
        assert await pulled(puller, query) == PullProgress(0, 0, PullEnd.MISS)


async def test_a_source_that_is_gone_is_unavailable():
    async with pair() as (_, puller):
        with dead_address() as nowhere:
            last = await pulled(puller, pull_of(prompt(3), nowhere))
        assert last == PullProgress(0, 0, PullEnd.UNAVAILABLE)
        assert count_of(puller, "unavailable") == 1


async def test_a_full_node_says_so_and_keeps_what_came():
    keys = prompt(BLOCKS)
    async with open_peer("source") as source, open_peer("puller", dram_blocks=10) as puller:
        await source.write(keys)
        last = await pulled(puller, pull_of(keys, source.address))
        assert last.end is PullEnd.NO_ROOM
        assert puller.node.usage()[0].used_bytes <= 10 * STORED_BYTES


async def test_a_pull_from_oneself_brings_nothing():
    keys = prompt(3)
    async with pair() as (_, puller):
        assert await pulled(puller, pull_of(keys, puller.address)) == PullProgress(
            0, 0, PullEnd.MISS
        )
        puller.node.pulls.order(order_of(keys, puller.address))
        assert puller.node.pulls.in_flight == 0


async def test_one_pull_too_many_is_refused():
    stuck = FakeNode()
    stuck.troubles["Lineage"] = Stall()
    async with pair(ONE_RUN) as (source, puller), serving(stuck) as address:
        await source.write(prompt(3))
        puller.node.pulls.order(order_of(prompt(3, name=1), address))
        last = await pulled(puller, pull_of(prompt(3), source.address))
        assert last == PullProgress(0, 0, PullEnd.BUSY)
        puller.node.pulls.order(order_of(prompt(3), source.address))
        assert count_of(puller, "busy") == 2


async def test_an_order_is_followed_in_the_background_and_owned_by_its_session():
    keys = prompt(BLOCKS)
    async with pair() as (source, puller):
        await source.write(keys)
        puller.node.pulls.order(order_of(keys, source.address))
        matched = puller.node.match(MatchQuery(SPEC.namespace_id, PackedKeys.join(prompt(50))))
        assert (matched.by_tier.total, matched.arriving_blocks) == (0, BLOCKS)
        await all_over(puller)
        assert await puller.read(keys) == (BLOCKS, ReadEnd.COMPLETE)
        (estate,) = puller.node.catalog.estates()
        assert (estate.name, estate.is_owned) == ("s", True)


async def test_an_order_to_what_is_no_address_is_counted():
    async with pair() as (_, puller):
        puller.node.pulls.order(order_of(prompt(3), "unix:/tmp/socket:1"))
        assert puller.node.pulls.in_flight == 0
        assert count_of(puller, "unavailable") == 1


async def test_who_asks_for_what_is_under_way_joins_it():
    keys = prompt(BLOCKS)
    async with pair() as (source, puller):
        await source.write(keys)
        puller.node.pulls.order(order_of(keys, source.address))
        queries = [
            pull_of(keys, source.address, is_tip_only=True),
            pull_of(keys, ""),
            pull_of(keys[:10], source.address),
        ]
        ends = await asyncio.gather(*(pulled(puller, query) for query in queries))
        assert [(end.held_blocks, end.end) for end in ends] == [
            (BLOCKS, PullEnd.COMPLETE),
            (BLOCKS, PullEnd.COMPLETE),
            (10, PullEnd.COMPLETE),
        ]
        await all_over(puller)
        assert count_of(puller, "complete") == 2  # its keys were not known to be the order's
        assert source.meters.value("cachenode_asked_blocks_total") == BLOCKS


async def test_prompts_that_begin_alike_are_not_fetched_twice():
    head = prompt(20)
    tails = [[bytes((9, name, at)) + b"t" * 13 for at in range(10)] for name in range(3)]
    async with pair() as (source, puller):
        await source.write(head)
        for tail in tails:
            await source.write(tail, parent_key=head[-1])
        queries = [pull_of([*head, *tail], source.address) for tail in tails]
        ends = await asyncio.gather(*(pulled(puller, query) for query in queries))
        assert {(end.held_blocks, end.end) for end in ends} == {(30, PullEnd.COMPLETE)}
        assert sum(end.pulled_blocks for end in ends) == 50
        assert source.meters.value("cachenode_asked_blocks_total") == 50


async def test_who_names_no_source_waits_for_others_and_no_longer():
    keys = prompt(BLOCKS)
    async with pair() as (source, puller):
        await source.write(keys[:20])
        assert await pulled(puller, pull_of(keys, "")) == PullProgress(0, 0, PullEnd.MISS)
        puller.node.pulls.order(order_of(keys[:20], source.address))
        assert await pulled(puller, pull_of(keys, "")) == PullProgress(20, 20, PullEnd.MISS)
        assert await pulled(puller, pull_of(keys, "", is_tip_only=True)) == PullProgress(
            0, 0, PullEnd.MISS
        )


@asynccontextmanager
async def stuck_pull(puller: PeerRig, address: str) -> AsyncIterator[None]:
    """Wait for a pull that does not get on, until the body is left."""
    async with aclosing(puller.node.pulls.pull(pull_of(prompt(3), address))) as news:
        assert (await anext(news)).end is None
        yield


@pytest.mark.parametrize("is_ordered", [False, True])
async def test_who_leaves_ends_a_pull_that_nobody_else_wants(is_ordered: bool):
    source = FakeNode()
    source.troubles["Read"] = Stall()
    async with open_peer("puller") as puller, serving(source) as address:
        async with stuck_pull(puller, address):
            if is_ordered:
                puller.node.pulls.order(order_of(prompt(3), address))
            async with stuck_pull(puller, address):
                assert puller.node.pulls.in_flight == 1
            assert puller.node.pulls.in_flight == 1
        assert puller.node.pulls.in_flight == int(is_ordered)
        assert count_of(puller, "given_up") == 1 - int(is_ordered)


async def test_a_node_that_stops_tells_those_who_wait():
    source = FakeNode()
    source.troubles["Read"] = Stall()
    async with open_peer("puller") as puller, serving(source) as address:
        query = pull_of(prompt(3), address)
        async with stuck_pull(puller, address), asyncio.TaskGroup() as group:
            waiting = group.create_task(pulled(puller, query))
            await asyncio.sleep(0)
            puller.node.pulls.stop()
        assert waiting.result().end is PullEnd.UNAVAILABLE
        assert (await pulled(puller, query)).end is PullEnd.BUSY


async def test_a_source_that_stalls_is_given_up():
    source = FakeNode()
    source.troubles["Read"] = Stall()
    async with open_peer("puller", limits=HASTY) as puller, serving(source) as address:
        assert (await pulled(puller, pull_of(prompt(3), address))).end is PullEnd.UNAVAILABLE


async def test_a_pull_has_an_end():
    source = FakeNode()
    source.troubles["Read"] = Stall()
    limits = PullLimits(stall_s=20, pull_s=0.2)
    async with open_peer("puller", limits=limits) as puller, serving(source) as address:
        assert (await pulled(puller, pull_of(prompt(3), address))).end is PullEnd.UNAVAILABLE


def honest_fake(keys: list[bytes]) -> FakeNode:
    source = FakeNode()
    for key in keys:
        source.hold(SPEC.namespace_id, key, payload_of(key))
    return source


async def test_a_source_that_dies_in_the_middle_leaves_what_came():
    keys = prompt(9)
    source = honest_fake(keys)
    source.read_bends = lambda steps: [*steps[:4], Fail(grpc.StatusCode.UNAVAILABLE)]
    async with open_peer("puller") as puller, serving(source) as address:
        last = await pulled(puller, pull_of(keys, address))
        assert last == PullProgress(4, 4, PullEnd.UNAVAILABLE)
        assert await puller.read(keys) == (4, ReadEnd.MISS)


async def test_a_damaged_block_is_not_stored_and_dropped_where_it_lies():
    keys = prompt(9)
    source = honest_fake(keys)
    source.blocks[SPEC.namespace_id, keys[5]].checksum ^= 1
    async with open_peer("puller") as puller, serving(source) as address:
        last = await pulled(puller, pull_of(keys, address))
        assert last == PullProgress(5, 5, PullEnd.MISS)
        assert await puller.read(keys) == (5, ReadEnd.MISS)
        (dropped,) = source.dropped
        assert dropped.blocks.keys.keys == keys[5]


async def test_a_source_that_lies_about_sizes_is_not_believed():
    keys = prompt(3)
    liar = honest_fake(keys)
    liar.blocks[SPEC.namespace_id, keys[1]].payload += b"more"
    async with open_peer("puller") as puller, serving(liar) as address:
        assert await pulled(puller, pull_of(keys, address)) == PullProgress(
            1, 1, PullEnd.UNAVAILABLE
        )


def lineage_of(keys: list[bytes], spec: NamespaceSpec = SPEC) -> cache_node_pb2.LineageResponse:
    return cache_node_pb2.LineageResponse(
        namespace=block_pb2.NamespaceSpec(
            namespace_id=spec.namespace_id,
            block_size=spec.block_size,
            block_bytes=spec.block_bytes,
        ),
        keys=block_pb2.PackedKeys(keys=b"".join(keys), key_width=16),
    )


@pytest.mark.parametrize(
    "lineage",
    [
        lineage_of(prompt(2)),
        lineage_of(prompt(3), NamespaceSpec(b"m" * 16, 16, 1000)),
        lineage_of(prompt(3), NamespaceSpec(SPEC.namespace_id, 16, 999)),
        lineage_of(prompt(3), NamespaceSpec(SPEC.namespace_id, 32, 1000)),
    ],
    ids=["other-tip", "other-namespace", "other-bytes", "other-tokens"],
)
async def test_a_source_that_lies_about_a_lineage_is_not_believed(lineage):
    liar = honest_fake(prompt(3))
    liar.lineage = lineage
    async with open_peer("puller") as puller, serving(liar) as address:
        await puller.write(prompt(1, name=7))  # so the sizes are known
        query = PullQuery(SPEC.namespace_id, PackedKeys(b""), prompt(3)[-1], address)
        assert (await pulled(puller, query)).end is PullEnd.UNAVAILABLE
        assert liar.calls["Read"] == 0


async def test_blocks_that_go_while_others_come_end_the_pull():
    keys = prompt(9)
    source = honest_fake(keys)
    async with open_peer("puller") as puller, serving(source) as address:
        await puller.write(keys[:3])

        def drop_first(steps):
            puller.node.drop(DropBlocks(SPEC.namespace_id, PackedKeys.join(keys[:1])))
            return steps

        source.read_bends = drop_first
        assert (await pulled(puller, pull_of(keys, address))).end is PullEnd.NO_ROOM
