"""Tests of hearthkv/client/kv.py."""

import asyncio

import grpc
import pytest

from hearthkv.client.kv import connect
from hearthkv.client.outcome import Finished, Loaded, MissReason
from hearthkv.core.block_io import DropNamespace
from hearthkv.core.clock import ManualClock
from hearthkv.core.errors import (
    BadInputError,
    BadNamespaceError,
    BadSessionIdError,
    PeerUnreachableError,
)
from hearthkv.core.namespace import ModelNamespace, NamespaceSpec
from hearthkv.core.routing import CacheHint, PlacementReason
from hearthkv.core.tier import Tier, TierCounts
from hearthkv.v1 import router_pb2
from tests.fakes.misbehaviour import Fail, Stall
from tests.fakes.node import FakeNode
from tests.fakes.router import FakeRouter, endpoint
from tests.fakes.servers import dead_address, serving
from tests.unit.hearthkv.client.client_kit import (
    BLOCK_BYTES,
    BLOCKS,
    IMPATIENT,
    KEYS,
    PAYLOADS,
    SPEC,
    TOKENS,
    client,
    holding,
    until,
)


def new_buffer() -> bytearray:
    return bytearray(BLOCKS * BLOCK_BYTES)


async def test_a_turn_goes_to_the_node_that_the_router_names():
    node = holding(3)
    async with serving(node) as node_address:
        there = endpoint("a", node_address, engine_url="http://a")
        async with (
            serving(FakeRouter(there, matched_blocks=3)) as address,
            client(address) as kv,
        ):
            turn = await kv.begin_turn("s", SPEC, TOKENS, cache_hint="reuse")
            loaded = await turn.load_into(new_buffer())
    assert (turn.node_id, turn.engine_url) == ("a", "http://a")
    assert (turn.reason, turn.miss_reason) == (PlacementReason.SESSION, None)
    assert turn.matched == TierCounts(dram=3)
    assert loaded == Loaded(3, 12, TierCounts(dram=3), MissReason.NOT_HELD)
    assert node.calls["Match"] == 0


async def test_the_router_is_told_what_the_caller_wants():
    router = FakeRouter(endpoint("a", "127.0.0.1:7500"))
    async with serving(router) as address, client(address) as kv:
        await kv.begin_turn("s", SPEC, TOKENS, cache_hint=CacheHint.REUSE)
    assert router.last_route is not None
    assert router.last_route.session_id == "s"
    assert router.last_route.cache_hint == router_pb2.CACHE_HINT_REUSE
    assert router.last_route.block_size == 4


async def test_an_index_that_lags_costs_nothing_where_the_caller_has_the_room():
    async with serving(holding()) as node_address:
        router = FakeRouter(endpoint("a", node_address), matched_blocks=0)
        async with serving(router) as address, client(address) as kv:
            turn = await kv.begin_turn("s", SPEC, TOKENS)
            assert turn.miss_reason is MissReason.NOT_HELD
            assert (await turn.load_into(new_buffer())).blocks == BLOCKS


async def test_a_named_node_is_asked_and_no_router():
    router = FakeRouter(endpoint("a", "127.0.0.1:7500"))
    async with (
        serving(router) as address,
        serving(holding(2)) as node_address,
        client(address) as kv,
    ):
        turn = await kv.begin_turn("s", SPEC, TOKENS, node=node_address)
    assert turn.matched == TierCounts(dram=2)
    assert router.calls["Route"] == 0


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (Fail(grpc.StatusCode.UNAVAILABLE), MissReason.NODE_UNREACHABLE),
        (Fail(grpc.StatusCode.INTERNAL), MissReason.REFUSED),
        (Stall(), MissReason.TIMEOUT),
    ],
    ids=["gone", "failing", "stalled"],
)
async def test_a_named_node_in_trouble_is_a_miss(trouble: Stall | Fail, reason: MissReason):
    node = FakeNode()
    node.troubles["Match"] = trouble
    async with serving(node) as address, client(settings=IMPATIENT) as kv:
        turn = await kv.begin_turn("s", SPEC, TOKENS, node=address)
    assert (turn.matched, turn.miss_reason) == (TierCounts(), reason)


async def test_a_node_that_stalls_costs_its_deadline_once():
    node, clock = holding(), ManualClock()
    node.troubles["Match"] = Stall()
    async with serving(node) as address, client(clock=clock, settings=IMPATIENT) as kv:
        reasons = []
        for _ in range(3):
            turn = await kv.begin_turn("s", SPEC, TOKENS, node=address)
            reasons += [turn.miss_reason, (await turn.load_into(new_buffer())).miss]
            turn.save(0, PAYLOADS)
            reasons.append((await turn.finish()).miss)
        assert (node.calls["Match"], node.calls["Read"], node.calls["Write"]) == (1, 0, 0)
        assert reasons == [MissReason.TIMEOUT, *[MissReason.NODE_UNREACHABLE] * 8]
        clock.advance(IMPATIENT.cooldown_s)
        del node.troubles["Match"]
        turn = await kv.begin_turn("s", SPEC, TOKENS, node=address)
        assert turn.matched == TierCounts(dram=BLOCKS)


async def test_no_router_is_a_miss():
    with dead_address() as address:
        async with client(address) as kv:
            turn = await kv.begin_turn("s", SPEC, TOKENS)
            assert turn.miss_reason is MissReason.NO_ROUTER
            assert (turn.node_id, turn.node_address) == (None, None)
            assert await turn.load_into(new_buffer()) == Loaded(miss=MissReason.NO_ROUTER)
            assert turn.save(0, PAYLOADS) == 0
            assert await turn.finish() == Finished(miss=MissReason.NO_ROUTER)
            assert await kv.route("s", SPEC, TOKENS) is None


async def test_no_live_node_is_a_miss():
    router = FakeRouter()
    router.troubles["Route"] = Fail(grpc.StatusCode.UNAVAILABLE, is_answer=True)
    async with serving(router) as address, client(address) as kv:
        turn = await kv.begin_turn("s", SPEC, TOKENS)
    assert turn.miss_reason is MissReason.NO_NODE


async def test_a_router_that_names_nonsense_is_a_miss(caplog: pytest.LogCaptureFixture):
    async with (
        serving(FakeRouter(endpoint("a", "no address"))) as address,
        client(address, settings=IMPATIENT) as kv,
    ):
        turn = await kv.begin_turn("s", SPEC, TOKENS)
        loaded = await turn.load_into(new_buffer())
    assert loaded.blocks == 0
    assert loaded.miss in {MissReason.NODE_UNREACHABLE, MissReason.TIMEOUT}


async def test_when_the_routers_are_gone_sessions_find_their_homes_by_themselves():
    async with serving(holding(4)) as node_address:
        router = FakeRouter(endpoint("a", node_address, engine_url="http://a"))
        async with serving(router) as address:
            kv = client(address)
            await kv.__aenter__()
            assert kv._routers is not None
            view = kv._routers.view
            await until(lambda: view.nodes)
        turn = await kv.begin_turn("s", SPEC, TOKENS)
        route = await kv.route("s", SPEC, TOKENS)
        await kv.close()
    assert (turn.node_id, turn.reason) == ("a", PlacementReason.HOME)
    assert turn.matched == TierCounts(dram=4)
    assert route is not None
    assert (route.node.engine_url, route.matched) == ("http://a", TierCounts())


async def test_a_route_is_told_without_beginning_a_turn():
    router = FakeRouter(endpoint("a", "127.0.0.1:7500"), matched_blocks=2)
    async with serving(router) as address, client(address) as kv:
        route = await kv.route("s", SPEC, TOKENS, cache_hint="reuse")
        assert kv.stats.requests == 0
    assert route is not None
    assert (route.node.node_id, route.matched.total) == ("a", 2)


async def test_bypass_leaves_the_cache_alone():
    node = holding()
    async with serving(node) as node_address:
        router = FakeRouter(endpoint("a", node_address, engine_url="http://a"))
        async with serving(router) as address, client(address) as kv:
            for named in (None, node_address):
                turn = await kv.begin_turn("s", SPEC, TOKENS, cache_hint="bypass", node=named)
                assert turn.miss_reason is MissReason.BYPASS
                assert await turn.load_into(new_buffer()) == Loaded(miss=MissReason.BYPASS)
                assert turn.save(0, PAYLOADS) == 0
                assert await turn.finish() == Finished(miss=MissReason.BYPASS)
    assert not node.calls
    assert router.calls["Route"] == 1
    assert router.last_route is not None
    assert router.last_route.keys.keys == b""


async def test_bypass_without_a_router_is_bypass():
    async with client() as kv:
        turn = await kv.begin_turn("s", SPEC, TOKENS, cache_hint="bypass")
    assert turn.miss_reason is MissReason.BYPASS


async def test_a_prompt_shorter_than_a_block_is_a_miss():
    async with serving(FakeNode()) as address, client() as kv:
        turn = await kv.begin_turn("s", SPEC, [1, 2, 3], node=address)
        assert (len(turn.keys), turn.miss_reason) == (0, MissReason.NOT_HELD)
        assert (await turn.load_into(bytearray())).blocks == 0


async def test_a_models_namespace_stands_for_its_spec():
    model = ModelNamespace(
        model="m", revision="1", dtype="float32", layers=1, kv_heads=1, head_dim=8
    )
    async with serving(FakeNode()) as address, client() as kv:
        turn = await kv.begin_turn("s", model, TOKENS, node=address)
    assert turn.block_bytes == model.spec.block_bytes


async def test_what_the_cache_did_is_counted():
    async with serving(holding(3)) as address, client() as kv:
        turn = await kv.begin_turn("s", SPEC, TOKENS, node=address)
        await turn.load_into(new_buffer())
        stats = kv.stats
    assert (stats.requests, stats.prompt_tokens) == (1, 22)
    assert stats.cached_tokens[Tier.DRAM] == 12
    assert stats.hit_ratio == pytest.approx(12 / 22)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("", SPEC, TOKENS), BadSessionIdError),
        (("s" * 257, SPEC, TOKENS), BadSessionIdError),
        (("a\nb", SPEC, TOKENS), BadSessionIdError),
        (("s", SPEC, [-1]), BadInputError),
        (("s", SPEC, ["a"]), BadInputError),
    ],
    ids=["no-session", "long-session", "control", "negative-token", "text-token"],
)
async def test_what_the_caller_got_wrong_raises(arguments: tuple, error: type[BadInputError]):
    async with client() as kv:
        with pytest.raises(error):
            await kv.begin_turn(*arguments)
        with pytest.raises(error):
            await kv.route(*arguments)
        assert kv.stats.requests == 0


async def test_an_unknown_hint_raises_and_names_the_known_ones():
    async with client() as kv:
        with pytest.raises(BadInputError, match="is 'always', must be one of none, reuse, bypass"):
            await kv.begin_turn("s", SPEC, TOKENS, cache_hint="always")


@pytest.mark.parametrize("limit", [-1, 1001, 2**40])
async def test_a_listing_that_no_router_gives_raises(limit: int):
    async with client() as kv:
        with pytest.raises(BadInputError, match=r"limit is -?\d+, must be in 0..1000"):
            await kv.list_sessions(limit)


async def test_an_address_that_is_none_raises():
    with pytest.raises(BadInputError, match="address is 'router'"):
        connect("router")
    async with client() as kv:
        with pytest.raises(BadInputError, match="address is 'node'"):
            await kv.begin_turn("s", SPEC, TOKENS, node="node")


def test_a_namespace_that_is_none_raises():
    with pytest.raises(BadNamespaceError):
        NamespaceSpec(b"short", 16, 64)


async def test_a_closed_client_says_so():
    kv = client("127.0.0.1:7400")
    await kv.close()
    await kv.close()
    with pytest.raises(BadInputError, match="client is closed"):
        await kv.begin_turn("s", SPEC, TOKENS)
    with pytest.raises(BadInputError, match="client is closed"):
        await kv.begin_turn("s", SPEC, TOKENS, node="127.0.0.1:7500")


async def test_closing_under_a_call_makes_it_a_miss():
    router, stall = FakeRouter(), Stall()
    router.troubles["Route"] = stall
    async with serving(router) as address:
        kv = client(address)
        task = asyncio.create_task(kv.begin_turn("s", SPEC, TOKENS, cache_hint="reuse"))
        await stall.begun.wait()
        await kv.close()
        assert (await task).miss_reason is MissReason.NO_ROUTER


async def test_a_turn_outlives_its_client_without_harm():
    async with serving(holding()) as address:
        async with client() as kv:
            turn = await kv.begin_turn("s", SPEC, TOKENS, node=address)
        assert turn.save(0, PAYLOADS) == 0
        assert (await turn.finish()).miss is MissReason.CLOSED
        assert (await turn.load_into(new_buffer())).miss is MissReason.NODE_UNREACHABLE


async def test_a_cancelled_turn_passes_the_cancellation_on():
    router, stall = FakeRouter(), Stall()
    router.troubles["Route"] = stall
    async with serving(router) as address, client(address) as kv:
        task = asyncio.create_task(kv.begin_turn("s", SPEC, TOKENS))
        await stall.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await stall.ended.wait()


async def test_closing_leaves_no_task():
    before = asyncio.all_tasks()
    with dead_address() as gone:
        async with client(gone) as kv:
            await kv.begin_turn("s", SPEC, TOKENS)
            turn = await kv.begin_turn("s", SPEC, TOKENS, node=gone)
            turn.save(0, PAYLOADS)
    names = {task.get_name() for task in asyncio.all_tasks() - before}
    assert not {name for name in names if name.startswith("hearthkv")}


async def test_the_calls_for_people_reach_routers_and_nodes():
    node = holding(2)
    router = FakeRouter(endpoint("a", "127.0.0.1:7500"))
    async with serving(router) as address, serving(node) as at, client(address) as kv:
        assert [match.node_id for match in await kv.lookup(SPEC, TOKENS)] == ["a"]
        assert [status.endpoint.node_id for status in await kv.list_nodes()] == ["a"]
        assert [status.session_id for status in await kv.list_sessions()] == ["s"]
        assert await kv.end_session("s") == "a"
        assert await kv.drain_node("a") == 2
        assert await kv.drain_node("a", cancel=True) == 2
        assert (await kv.describe(at)).node_id == "fake"
        assert await kv.prefetch(at, SPEC, TOKENS) == 2
        assert (await kv.pin(at, SPEC, TOKENS, ttl_s=60)).blocks == 2
        assert await kv.unpin(at, "pin-1") == 5
        assert await kv.drop(at, DropNamespace(SPEC.namespace_id)) == 1
    assert router.ended == ["s"]
    assert router.drains == [("a", False), ("a", True)]


async def test_a_call_for_people_that_nobody_answers_raises():
    async with client() as kv:
        with pytest.raises(PeerUnreachableError, match="no router is named"):
            await kv.list_nodes()


async def test_ending_a_session_forgets_its_prompt():
    router = FakeRouter(endpoint("a", "127.0.0.1:7500"))
    async with serving(router) as address, client(address) as kv:
        await kv.begin_turn("s", SPEC, TOKENS)
        assert len(kv._chains) == 1
        await kv.end_session("s")
        assert len(kv._chains) == 0


async def test_a_turn_hashes_only_what_it_adds():
    async with client() as kv:
        for length in (400, 404, 408):
            await kv.begin_turn("s", SPEC, range(length))
        (chain,) = kv._chains._chains.values()
    assert chain.hashed_blocks == 102
    assert chain.keys_of(TOKENS) == KEYS
