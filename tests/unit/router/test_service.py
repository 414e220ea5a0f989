"""router/service.py: the calls, over a channel."""

import grpc
import pytest
from grpc import aio

from hearthkv.codec.status import decode_reason
from hearthkv.core.errors import (
    BadInputError,
    HearthKVError,
    LimitError,
    NoNodeError,
    SettlingError,
    StreamEndedError,
    UnknownNodeError,
)
from hearthkv.core.routing import (
    BlockEvent,
    DrainOrder,
    EventBatch,
    EventsAck,
    NodeLoad,
    PrefetchOrder,
    PullOrder,
    ResyncOrder,
)
from hearthkv.core.tier import Tier, TierUsage
from hearthkv.v1 import block_pb2, router_pb2
from router.service import STATUS_OF
from tests.unit.router.served import KEYS, NS, joined, serving, settled, turn


def tiers(counts) -> dict[int, int]:
    return {count.tier: count.blocks for count in counts}


def test_every_error_that_a_call_can_raise_has_a_status():
    raised = {
        BadInputError,
        LimitError,
        NoNodeError,
        SettlingError,
        StreamEndedError,
        UnknownNodeError,
    }
    assert set(STATUS_OF) == raised
    assert all(issubclass(error, HearthKVError) for error in STATUS_OF)


async def test_a_turn_is_routed_to_its_longest_prefix_with_tiers_and_reason():
    async with serving() as served:
        await joined(served, "a", (Tier.DRAM, KEYS.slice(0, 60)))
        await joined(served, "b", (Tier.DRAM, KEYS.slice(0, 70)), (Tier.SSD, KEYS.slice(70, 90)))
        response = await served.stub.Route(turn())
        assert response.node.node_id == "b"
        assert response.node.address == "b:7500"
        assert response.node.engine_url == "http://b:8000"
        assert response.matched_blocks == 90
        assert tiers(response.matched_by_tier) == {block_pb2.TIER_DRAM: 70, block_pb2.TIER_SSD: 20}
        assert response.reason == router_pb2.PLACEMENT_REASON_PREFIX
        assert response.home_node_id in {"a", "b"}


async def test_a_router_that_has_just_started_lets_others_place_the_turns():
    async with serving(settle_s=3.0) as served:
        await joined(served, "a")
        with pytest.raises(aio.AioRpcError, match=r"places turns in 3\.0 s") as caught:
            await served.stub.Route(turn())
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        served.clock.advance(3.0)
        assert (await served.stub.Route(turn())).node.node_id == "a"


async def test_a_turn_with_blocks_on_ssd_has_them_lifted():
    async with serving() as served:
        node = await joined(served, "a", (Tier.SSD, KEYS.slice(0, 60)))
        await served.stub.Route(turn())
        assert await node.hear() == PrefetchOrder(NS, KEYS[59])


async def test_without_a_node_a_turn_is_unavailable():
    async with serving() as served:
        with pytest.raises(aio.AioRpcError) as caught:
            await served.stub.Route(turn())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert decode_reason(caught.value.trailing_metadata()) == "NO_NODE"


@pytest.mark.parametrize(
    ("changed", "text", "reason"),
    [
        (
            {"keys": block_pb2.PackedKeys(keys=b"k" * 16, key_width=0)},
            "key_width is 0, must be in 1..32",
            "BAD_KEYS",
        ),
        (
            {"keys": block_pb2.PackedKeys(keys=b"k" * 33, key_width=33)},
            "key_width is 33, must be in 1..32",
            "BAD_KEYS",
        ),
        (
            {"keys": block_pb2.PackedKeys(keys=b"k" * 17, key_width=16)},
            "keys are 17 bytes, must be a multiple of key_width 16",
            "BAD_KEYS",
        ),
        ({"session_id": ""}, "session_id is 0 bytes, must be 1 to 256", "BAD_SESSION_ID"),
        ({"session_id": "é" * 129}, "session_id is 258 bytes, must be 1 to 256", "BAD_SESSION_ID"),
        (
            {"session_id": "a\nb"},
            "session_id has the control character U+000A at 1, must have none",
            "BAD_SESSION_ID",
        ),
        (
            {"namespace_id": b"short"},
            "namespace_id is 5 bytes, must be 16 to 32",
            "BAD_NAMESPACE",
        ),
        ({"block_size": 0}, "block_size is 0, must be in 1..65536", "BAD_REQUEST"),
        (
            {"cache_hint": 9},
            "cache_hint is 9, must be one of NONE, REUSE, BYPASS",
            "BAD_REQUEST",
        ),
    ],
)
async def test_a_bad_turn_is_answered_with_the_figures_and_a_stable_reason(changed, text, reason):
    async with serving() as served:
        await joined(served)
        with pytest.raises(aio.AioRpcError) as caught:
            await served.stub.Route(turn(**changed))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.details() == text
        assert decode_reason(caught.value.trailing_metadata()) == reason
        assert served.router.meters.value("router_refusals_total", reason=reason) == 1


async def test_an_unknown_namespace_is_a_miss():
    async with serving() as served:
        await joined(served, "a", (Tier.DRAM, KEYS))
        response = await served.stub.Route(turn(namespace_id=b"x" * 16))
        assert response.matched_blocks == 0


async def test_lookup_says_who_holds_how_much_and_changes_nothing():
    async with serving() as served:
        await joined(served, "a", (Tier.SSD, KEYS.slice(0, 10)))
        await joined(served, "b", (Tier.DRAM, KEYS.slice(0, 20)))
        await joined(served, "c")
        keys = block_pb2.PackedKeys(keys=KEYS.packed, key_width=16)
        response = await served.stub.Lookup(router_pb2.LookupRequest(namespace_id=NS, keys=keys))
        assert [(match.node_id, match.matched_blocks) for match in response.matches] == [
            ("b", 20),
            ("a", 10),
        ]
        sessions = await served.stub.ListSessions(router_pb2.ListSessionsRequest())
        assert sessions.sessions_total == 0


@pytest.mark.parametrize("call", ["Lookup", "EndSession", "ListSessions"])
async def test_the_other_calls_refuse_bad_input_too(call: str):
    requests = {
        "Lookup": router_pb2.LookupRequest(namespace_id=b"x"),
        "EndSession": router_pb2.EndSessionRequest(session_id=""),
        "ListSessions": router_pb2.ListSessionsRequest(limit=1001),
    }
    async with serving() as served:
        with pytest.raises(aio.AioRpcError) as caught:
            await getattr(served.stub, call)(requests[call])
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_an_ended_session_is_forgotten_and_its_namesakes_are_not():
    async with serving() as served:
        await joined(served)
        await served.stub.Route(turn("session-1"))
        served.clock.advance(2.0)
        await served.stub.Route(turn("session-12"))
        served.clock.advance(3.0)
        ended = await served.stub.EndSession(router_pb2.EndSessionRequest(session_id="session-1"))
        assert ended.node_id == "a"
        again = await served.stub.EndSession(router_pb2.EndSessionRequest(session_id="session-1"))
        assert again.node_id == ""
        response = await served.stub.ListSessions(router_pb2.ListSessionsRequest())
        (session,) = response.sessions
        assert (session.session_id, session.node_id, session.turns) == ("session-12", "a", 1)
        assert session.idle.ToSeconds() == 3
        assert response.sessions_total == 1


async def test_nodes_are_listed_with_their_load():
    async with serving() as served:
        node = await joined(served, "a", (Tier.DRAM, KEYS))
        usage = TierUsage(Tier.DRAM, 10, 5, 100, 2, "Redis is away")
        await node.say(NodeLoad(sequence=1, tiers=(usage,), calls_in_flight=4))
        await node.say(EventBatch(2))
        assert await node.hear() == EventsAck(2)
        served.clock.advance(2.5)
        (status,) = (await served.stub.ListNodes(router_pb2.ListNodesRequest())).nodes
        assert (status.endpoint.node_id, status.endpoint.state) == ("a", 1)
        assert (status.indexed_blocks, status.sessions, status.calls_in_flight) == (100, 0, 4)
        assert (status.tiers[0].used_bytes, status.tiers[0].trouble) == (10, "Redis is away")
        assert status.silence.ToMilliseconds() == 2500


async def test_a_gap_heals_by_a_resync():
    async with serving() as served:
        node = await joined(served, "a", (Tier.DRAM, KEYS))
        lost = BlockEvent(NS, KEYS.slice(50, 100), None)
        await node.say(EventBatch(3, (lost,)))  # 2 never came
        assert await node.hear() == ResyncOrder(2, 3)
        await node.report((Tier.DRAM, KEYS.slice(0, 40)))
        await settled(node)
        assert (await served.stub.Route(turn())).matched_blocks == 40
        assert served.router.meters.value("router_resyncs_total") == 1


async def test_a_broken_stream_makes_the_node_suspect_and_turns_go_elsewhere():
    async with serving() as served:
        await joined(served, "a")
        broken = await joined(served, "b", (Tier.DRAM, KEYS))
        assert (await served.stub.Route(turn())).node.node_id == "b"
        broken.call.cancel()
        await served.nodes_become({"a": 1, "b": 2})
        response = await served.stub.Route(turn())
        assert response.node.node_id == "a"
        assert response.reason == router_pb2.PLACEMENT_REASON_FAILOVER
        back = await joined(served, "b", (Tier.DRAM, KEYS))
        await served.nodes_become({"a": 1, "b": 1})
        assert not back.call.done()
        assert (await served.stub.Route(turn())).node.node_id == "b"


async def test_hot_prefixes_are_ordered_by_the_sweep():
    async with serving() as served:
        serves = await joined(served, "b")
        for number in range(4):
            await served.stub.Route(turn(f"s{number}"))
        await joined(served, "a", (Tier.DRAM, KEYS))
        served.router.watch.sweep()
        assert await serves.hear() == PullOrder(NS, KEYS[95], 96, "a:7500")


async def test_a_node_that_is_to_leave_is_told_and_shown_so_until_it_may_stay():
    async with serving() as served:
        node = await joined(served, "a")
        await served.stub.Route(turn())
        answer = await served.stub.DrainNode(router_pb2.DrainNodeRequest(node_id="a"))
        assert answer.sessions == 1
        assert await node.hear() == DrainOrder()
        await served.nodes_become({"a": router_pb2.NODE_STATE_DRAINING})
        stay = router_pb2.DrainNodeRequest(node_id="a", is_cancelled=True)
        await served.stub.DrainNode(stay)
        assert await node.hear() == DrainOrder(is_cancelled=True)
        await served.nodes_become({"a": router_pb2.NODE_STATE_LIVE})


async def test_a_node_that_is_not_known_cannot_be_told_to_leave():
    async with serving() as served:
        await joined(served, "a")
        with pytest.raises(aio.AioRpcError) as caught:
            await served.stub.DrainNode(router_pb2.DrainNodeRequest(node_id="b"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert caught.value.details() == "node b is not known here, must be one of: a"
        assert decode_reason(caught.value.trailing_metadata()) == "UNKNOWN_NODE"


async def test_the_list_of_nodes_is_streamed_at_once_and_after_every_change():
    async with serving() as served:
        watching = served.stub.WatchNodes(router_pb2.WatchNodesRequest())
        first = await watching.read()
        assert list(first.nodes) == []
        await joined(served, "a")
        second = await watching.read()
        assert [node.node_id for node in second.nodes] == ["a"]
        assert second.version > first.version


async def test_the_metrics_of_a_scripted_workload_are_exact():
    async with serving(metrics_port=0) as served:
        await joined(served, "a", (Tier.DRAM, KEYS.slice(0, 60)))
        await joined(served, "b", (Tier.DRAM, KEYS.slice(0, 70)), (Tier.SSD, KEYS.slice(70, 90)))
        for request in (
            turn("one"),  # b by prefix: 70 dram, 20 ssd
            turn("one"),  # b by session
            turn("two", namespace_id=b"x" * 16),  # home, no match
            turn("one", cache_hint=router_pb2.CACHE_HINT_BYPASS),  # b by session, no match
        ):
            await served.stub.Route(request)
        served.router.watch.sweep()
        metrics = await served.metrics()
        expected = {
            'router_placements_total{reason="prefix"}': 1,
            'router_placements_total{reason="session"}': 2,
            'router_placements_total{reason="home"}': 1,
            "router_prompt_tokens_total": 4 * 1600,
            'router_matched_tokens_total{tier="hbm"}': 0,
            'router_matched_tokens_total{tier="dram"}': 2 * 70 * 16,
            'router_matched_tokens_total{tier="ssd"}': 2 * 20 * 16,
            'router_cache_hit_ratio{tier="total"}': 0.45,
            'router_cache_hit_ratio{tier="hbm"}': 0,
            'router_cache_hit_ratio{tier="dram"}': 0.35,
            'router_cache_hit_ratio{tier="ssd"}': 0.1,
            'router_nodes{state="live"}': 2,
            'router_nodes{state="suspect"}': 0,
            "router_index_keys": 150,
            "router_sessions": 2,
            "router_resyncs_total": 0,
            'router_prefetches_total{outcome="sent"}': 2,
        }
        assert {name: metrics[name] for name in expected} == expected
        assert 'router_placements_total{reason="failover"}' not in metrics
