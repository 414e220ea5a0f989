"""router/cluster.py: the parts of a router together, without a socket."""

import pytest

from hearthkv.core.block_io import KeysQuery
from hearthkv.core.block_key import PackedKeys, SampledKeys
from hearthkv.core.errors import NoNodeError
from hearthkv.core.routing import (
    BlockEvent,
    CacheHint,
    EventBatch,
    NodeEndpoint,
    NodeHello,
    NodeLoad,
    NodeMatch,
    NodeState,
    NodeStatus,
    PlacementReason,
    PrefetchOrder,
    PullOrder,
    ResyncOrder,
    RouteQuery,
    SnapshotPart,
)
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier, TierCounts, TierUsage
from router.cluster import Cluster, TokenTotals
from router.feed_alarms import FeedTrouble
from router.outcome import FeedAlarmed, FeedHealed, Outcome, StreamId
from router.settings import RouterSettings

NS = b"n" * 16
A, B = NodeId("a"), NodeId("b")
STREAMS = {A: StreamId(1), B: StreamId(2)}
KEYS = PackedKeys(b"".join(index.to_bytes(16) for index in range(100)))


def join(cluster: Cluster, node_id: NodeId, *held: tuple[Tier, PackedKeys]) -> None:
    """Let a node join and report what it holds."""
    stream = STREAMS[node_id]
    endpoint = NodeEndpoint(node_id, f"{node_id}:7500", epoch=1)
    cluster.hear(stream, NodeHello(endpoint), 0.0)
    parts = held or ((None, KEYS.slice(0, 0)),)
    for number, (tier, keys) in enumerate(parts):
        part = SnapshotPart(NS, tier, keys, number == 0, number == len(parts) - 1)
        cluster.hear(stream, part, 0.0)


def query(session_id="s", *, keys=KEYS, hint=CacheHint.REUSE, prompt_tokens=1600) -> RouteQuery:
    return RouteQuery(SessionId(session_id), NS, SampledKeys.all_of(keys), hint, prompt_tokens, 16)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(RouterSettings(index_keys_max=1000))


def test_a_turn_without_nodes_has_no_node_and_is_not_remembered(cluster: Cluster):
    with pytest.raises(NoNodeError):
        cluster.route(query(), 0.0)
    assert len(cluster.sessions) == 0
    assert cluster.totals.prompt == 0


def test_a_turn_goes_to_its_prefix_with_exact_tiers(cluster: Cluster):
    join(cluster, A, (Tier.DRAM, KEYS.slice(0, 60)))
    join(cluster, B, (Tier.DRAM, KEYS.slice(0, 70)), (Tier.SSD, KEYS.slice(70, 90)))
    routed = cluster.route(query(), 0.0)
    assert routed.route.node == NodeEndpoint(B, "b:7500", epoch=1)
    assert routed.route.reason is PlacementReason.PREFIX
    assert routed.route.matched == TierCounts(dram=70, ssd=20)
    assert routed.matched_tokens == TierCounts(dram=1120, ssd=320)
    assert routed.prefetch == PrefetchOrder(NS, KEYS[89])


@pytest.mark.parametrize("hint", [CacheHint.NONE, CacheHint.BYPASS])
def test_only_a_turn_that_reuses_prefetches(cluster: Cluster, hint: CacheHint):
    join(cluster, A, (Tier.SSD, KEYS))
    assert cluster.route(query(hint=hint), 0.0).prefetch is None


def test_what_lies_in_dram_needs_no_prefetch(cluster: Cluster):
    join(cluster, A, (Tier.DRAM, KEYS))
    assert cluster.route(query(), 0.0).prefetch is None


def test_a_turn_that_bypasses_the_cache_matches_nothing(cluster: Cluster):
    join(cluster, A, (Tier.DRAM, KEYS))
    routed = cluster.route(query(hint=CacheHint.BYPASS), 0.0)
    assert routed.route.matched == TierCounts()
    assert routed.prompt_tokens == 1600


def test_a_turn_without_the_hint_is_told_what_its_node_holds(cluster: Cluster):
    join(cluster, A, (Tier.DRAM, KEYS.slice(0, 3)))
    assert cluster.route(query(hint=CacheHint.NONE), 0.0).route.matched == TierCounts(dram=3)


def test_a_session_stays_and_a_turn_without_keys_follows_it(cluster: Cluster):
    join(cluster, A)
    join(cluster, B, (Tier.DRAM, KEYS))
    cluster.route(query(), 0.0)
    routed = cluster.route(query(keys=KEYS.slice(0, 0), prompt_tokens=0), 1.0)
    assert routed.route.node.node_id == B
    assert routed.route.reason is PlacementReason.SESSION


def test_a_suspect_node_gets_no_turn_though_it_holds_all(cluster: Cluster):
    join(cluster, A)
    join(cluster, B, (Tier.DRAM, KEYS))
    assert cluster.route(query(), 0.0).route.node.node_id == B
    cluster.lose(STREAMS[B], 0.0)
    routed = cluster.route(query(), 1.0)
    assert (routed.route.node.node_id, routed.route.reason) == (A, PlacementReason.FAILOVER)
    assert routed.route.home_node_id == A
    assert cluster.count_nodes() == {
        NodeState.LIVE: 1,
        NodeState.SUSPECT: 1,
        NodeState.DRAINING: 0,
    }


def test_events_move_what_matches(cluster: Cluster):
    join(cluster, A, (Tier.DRAM, KEYS))
    events = (
        BlockEvent(NS, KEYS.slice(90, 100), None),
        BlockEvent(NS, KEYS.slice(50, 90), Tier.SSD),
    )
    cluster.hear(STREAMS[A], EventBatch(1, events), 0.0)
    assert cluster.route(query(), 0.0).route.matched == TierCounts(dram=50, ssd=40)


def test_a_removed_node_leaves_no_block_behind(cluster: Cluster):
    join(cluster, A, (Tier.DRAM, KEYS))
    cluster.sweep(100.0)
    assert cluster.endpoints() == []
    assert cluster.index.keys == cluster.index.retired_keys == 0


def test_prompt_tokens_are_never_fewer_than_the_keys_stand_for(cluster: Cluster):
    join(cluster, A, (Tier.DRAM, KEYS))
    assert cluster.route(query(prompt_tokens=1), 0.0).prompt_tokens == 1600
    assert cluster.totals.hit_ratios()["total"] == 1.0


def test_lookup_lists_holders_longest_first_then_by_name(cluster: Cluster):
    join(cluster, B, (Tier.DRAM, KEYS.slice(0, 5)))
    join(cluster, A, (Tier.SSD, KEYS.slice(0, 5)))
    assert cluster.lookup(KeysQuery(NS, KEYS)) == [
        NodeMatch(A, TierCounts(ssd=5)),
        NodeMatch(B, TierCounts(dram=5)),
    ]
    cluster.hear(STREAMS[B], EventBatch(1, (BlockEvent(NS, KEYS.slice(5, 6), Tier.DRAM),)), 0.0)
    assert [match.node_id for match in cluster.lookup(KeysQuery(NS, KEYS))] == [B, A]
    assert len(cluster.sessions) == 0


def test_people_see_nodes_and_sessions(cluster: Cluster):
    join(cluster, A, (Tier.DRAM, KEYS))
    cluster.hear(STREAMS[A], NodeLoad(calls_in_flight=3), 1.0)
    cluster.route(query(), 2.0)
    assert cluster.node_statuses(4.0) == [
        NodeStatus(
            endpoint=NodeEndpoint(A, "a:7500", epoch=1),
            load=NodeLoad(calls_in_flight=3),
            indexed_blocks=100,
            sessions=1,
            silence_s=3.0,
        )
    ]
    (session,) = cluster.session_statuses(10, 4.0)
    assert (session.session_id, session.node_id, session.idle_s) == ("s", A, 2.0)
    assert (session.matched_blocks, session.prompt_tokens) == (100, 1600)
    assert cluster.end_session(SessionId("s"), 4.0) == A
    assert cluster.end_session(SessionId("s"), 4.0) is None


def test_a_node_whose_keys_found_no_room_is_asked_again_once_there_is_some():
    cluster = Cluster(RouterSettings(index_keys_max=100, lease_s=10.0))
    join(cluster, A, (Tier.DRAM, KEYS))
    join(cluster, B, (Tier.DRAM, KEYS.slice(0, 80)))
    missing = cluster.index.missing_keys_of(A) + cluster.index.missing_keys_of(B)
    assert missing == 80
    assert cluster.sweep(1.0).answers == ()  # no room yet
    cluster.hear(STREAMS[B], NodeLoad(), 9.0)
    outcome = cluster.sweep(11.0)  # the lease of A is over
    assert [answer for _, answer in outcome.answers] == [ResyncOrder(1, 1)]
    cluster.hear(STREAMS[B], SnapshotPart(NS, Tier.DRAM, KEYS.slice(0, 80), True, True), 11.0)
    assert cluster.index.look_up(NS, SampledKeys.all_of(KEYS)).prefixes() == {B: 80}
    assert cluster.sweep(12.0).answers == ()


def test_hit_ratios_of_no_turn_are_zero():
    assert TokenTotals().hit_ratios() == {"total": 0, "hbm": 0, "dram": 0, "ssd": 0}


def test_hit_ratios_are_tokens_matched_by_tokens_asked():
    totals = TokenTotals()
    totals.add(1000, TierCounts(hbm=100, dram=300, ssd=50))
    totals.add(1000, TierCounts())
    assert totals.hit_ratios() == {"total": 0.225, "hbm": 0.05, "dram": 0.15, "ssd": 0.025}


def beat(blocks: int, sequence: int = 0) -> NodeLoad:
    usage = TierUsage(Tier.DRAM, blocks * 100, 0, 10**6, blocks)
    return NodeLoad(sequence=sequence, tiers=(usage,))


def sweep_for(cluster: Cluster, seconds: int, heartbeat: NodeLoad, start: int = 0) -> Outcome:
    """Let time pass in which node A says the same every second."""
    outcome = Outcome()
    for second in range(start, start + seconds):
        cluster.hear(STREAMS[A], heartbeat, float(second))
        outcome += cluster.sweep(float(second))
    return outcome


def alarms_of(outcome: Outcome) -> list[FeedTrouble]:
    return [change.trouble for change in outcome.changes if isinstance(change, FeedAlarmed)]


def test_a_node_that_serves_and_tells_nothing_raises_an_alarm_until_it_does(cluster: Cluster):
    join(cluster, A)
    outcome = sweep_for(cluster, 13, beat(100))
    assert alarms_of(outcome) == [FeedTrouble.SHORT]
    assert [order for _, order in outcome.answers] == [ResyncOrder(1, 1)]
    assert cluster.feeds.counts()[FeedTrouble.SHORT] == 1
    cluster.hear(STREAMS[A], SnapshotPart(NS, Tier.DRAM, KEYS, True, True), 13.0)
    assert cluster.sweep(13.25).changes == (FeedHealed(A),)
    assert cluster.feeds.lag_s(13.25) == 0.0


def test_blocks_that_change_without_an_event_raise_an_alarm(cluster: Cluster):
    join(cluster, A, (Tier.DRAM, KEYS))
    sweep_for(cluster, 2, beat(100))
    assert alarms_of(sweep_for(cluster, 13, beat(101), start=2)) == [FeedTrouble.MUTE]


def test_a_node_that_is_not_there_raises_no_alarm(cluster: Cluster):
    join(cluster, A)
    sweep_for(cluster, 5, beat(100))
    cluster.lose(STREAMS[A], 5.0)
    assert alarms_of(cluster.sweep(14.0)) == []
    assert cluster.feeds.lag_s(14.0) == 0.0


def test_what_many_sessions_share_is_ordered_to_the_node_that_serves_them(cluster: Cluster):
    join(cluster, B)
    for number in range(4):
        keys = PackedKeys(KEYS.slice(0, 24).packed + bytes([200 + number]) * 16 * 76)
        assert cluster.route(query(f"s{number}", keys=keys), 0.0).pull is None
    assert cluster.hot_orders(1.0) == []  # nobody holds it
    join(cluster, A, (Tier.DRAM, KEYS))
    order = PullOrder(NS, KEYS[23], 24, "a:7500")
    assert cluster.hot_orders(2.0) == [(B, order)]
    assert cluster.hot_orders(3.0) == []


def test_a_node_that_leaves_is_told_to_fetch_nothing(cluster: Cluster):
    join(cluster, B)
    for number in range(4):
        cluster.route(query(f"s{number}"), 0.0)
    join(cluster, A, (Tier.DRAM, KEYS))
    cluster.order_drain(B, 1.0, is_cancelled=False)
    assert cluster.hot_orders(2.0) == []
