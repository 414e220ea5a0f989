"""router/node_watch.py: streams, their bounded queues, and those who watch the nodes."""

import asyncio
import logging

import pytest

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.clock import ManualClock
from hearthkv.core.errors import BadRequestError
from hearthkv.core.routing import (
    EventBatch,
    EventsAck,
    NodeEndpoint,
    NodeHello,
    NodeLoad,
    NodeState,
    PrefetchOrder,
    PullOrder,
    ResyncOrder,
    SnapshotPart,
    Welcome,
)
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier, TierUsage
from hearthkv.metrics import PrometheusMeters
from hearthkv.telemetry import Telemetry
from router import events
from router.cluster import Cluster
from router.node_watch import ADVICE_WAITING_MAX, ANSWERS_MAX, SWEEP_PERIOD_S, NodeWatch
from router.settings import RouterSettings

A = NodeId("a")
NS = b"n" * 16
KEYS = PackedKeys(b"k" * 32)
EMPTY = SnapshotPart(b"", None, KEYS.slice(0, 0), is_first=True, is_last=True)
ORDER = PrefetchOrder(NS, KEYS[1])
LEASE_S = 10.0


def hello(epoch: int = 1) -> NodeHello:
    return NodeHello(NodeEndpoint(A, "a:7500", epoch=epoch))


class Bench:
    """A watch, and all that it works with."""

    def __init__(self):
        settings = RouterSettings(lease_s=LEASE_S)
        self.clock = ManualClock()
        self.meters = PrometheusMeters(events.METRICS)
        self.cluster = Cluster(settings)
        self.watch = NodeWatch(
            self.cluster,
            self.clock,
            Telemetry(logging.getLogger("test"), self.meters),
            stream_silence_s=LEASE_S,
        )

    def joined(self, epoch: int = 1):
        """A stream on which node A has joined with an empty inventory."""
        stream = self.watch.open()
        self.watch.hear(stream, hello(epoch))
        self.watch.hear(stream, EMPTY)
        return stream


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_node_is_answered_on_its_stream(bench: Bench):
    stream = bench.joined()
    bench.watch.hear(stream, EventBatch(1))
    assert await stream.next_answer() == Welcome(LEASE_S)
    assert await stream.next_answer() == EventsAck(1)
    assert stream.waiting_answers == 0


async def test_what_a_node_must_not_say_is_raised_to_its_call(bench: Bench):
    stream = bench.watch.open()
    with pytest.raises(BadRequestError):
        bench.watch.hear(stream, NodeLoad())


async def test_a_gap_is_counted_and_answered(bench: Bench):
    stream = bench.joined()
    bench.watch.hear(stream, EventBatch(2))
    await stream.next_answer()
    assert await stream.next_answer() == ResyncOrder(1, 2)
    assert bench.meters.value("router_resyncs_total") == 1


async def test_a_newer_stream_closes_the_older_and_the_node_stays_live(bench: Bench):
    old, new = bench.joined(), bench.joined()
    await old.closed()
    bench.watch.lose(old)
    assert not new.is_closed
    assert bench.meters.value("router_nodes", state="live") == 1


async def test_what_still_comes_from_an_older_stream_is_nothing(bench: Bench):
    old, new = bench.joined(), bench.joined()
    bench.watch.hear(old, EventBatch(9))
    assert bench.meters.value("router_resyncs_total") == 0
    assert not new.is_closed


async def test_a_lost_stream_makes_its_node_suspect_and_time_removes_it(bench: Bench):
    bench.watch.lose(bench.joined())
    assert bench.meters.value("router_nodes", state="live") == 0
    assert bench.meters.value("router_nodes", state="suspect") == 1
    bench.clock.advance(LEASE_S + 1)
    bench.watch.sweep()
    assert bench.meters.value("router_nodes", state="suspect") == 0


async def test_a_silent_node_is_removed_and_its_stream_closed(bench: Bench):
    stream = bench.joined()
    bench.clock.advance(LEASE_S + 1)
    bench.watch.sweep()
    assert stream.is_closed
    assert bench.cluster.endpoints() == []
    bench.watch.lose(stream)


async def test_a_stream_without_a_hello_is_closed_in_time(bench: Bench):
    mute, joined = bench.watch.open(), bench.joined()
    bench.clock.advance(LEASE_S)
    bench.watch.hear(joined, NodeLoad())
    bench.watch.sweep()
    assert not mute.is_closed
    bench.clock.advance(1.0)
    bench.watch.sweep()
    assert mute.is_closed
    assert not joined.is_closed


async def test_a_node_that_does_not_read_its_answers_loses_its_stream(bench: Bench):
    stream = bench.joined()
    for number in range(1, ANSWERS_MAX):
        bench.watch.hear(stream, EventBatch(number))
    assert stream.waiting_answers == ANSWERS_MAX
    assert not stream.is_closed
    bench.watch.hear(stream, EventBatch(ANSWERS_MAX))
    assert stream.is_closed
    assert stream.waiting_answers == ANSWERS_MAX


async def test_a_prefetch_goes_to_a_node_that_is_connected(bench: Bench):
    stream = bench.joined()
    bench.watch.order_prefetch(A, ORDER)
    assert await stream.next_answer() == Welcome(LEASE_S)
    assert await stream.next_answer() == ORDER
    assert bench.meters.value("router_prefetches_total", outcome="sent") == 1


async def test_a_prefetch_to_a_busy_or_absent_node_is_dropped(bench: Bench):
    bench.watch.order_prefetch(A, ORDER)
    stream = bench.joined()
    for _ in range(ADVICE_WAITING_MAX + 3):
        bench.watch.order_prefetch(A, ORDER)
    assert stream.waiting_answers == ADVICE_WAITING_MAX
    bench.watch.lose(stream)
    bench.watch.order_prefetch(A, ORDER)
    assert bench.meters.value("router_prefetches_total", outcome="dropped") == 6


async def test_a_pull_is_advice_too(bench: Bench):
    order = PullOrder(NS, KEYS[1], 2, "b:7500")
    bench.watch.order_pull(A, order, events.PullCause.TURN)
    stream = bench.joined()
    bench.watch.order_pull(A, order, events.PullCause.HOT)
    assert await stream.next_answer() == Welcome(LEASE_S)
    assert await stream.next_answer() == order
    assert bench.meters.value("router_pulls_total", cause="turn", outcome="dropped") == 1
    assert bench.meters.value("router_pulls_total", cause="hot", outcome="sent") == 1
    assert bench.meters.value("router_pulled_blocks_total", cause="hot") == 2


async def test_why_a_stream_was_ended_can_be_told(bench: Bench):
    old, new = bench.joined(), bench.joined(epoch=2)
    assert old.end_reason.startswith("node a joined again, at a:7500 with epoch 2: ")
    for number in range(1, ANSWERS_MAX + 1):
        bench.watch.hear(new, EventBatch(number))
    assert new.end_reason == f"{ANSWERS_MAX} answers were not read"
    last = bench.watch.open()
    bench.watch.close()
    assert last.end_reason == ""


async def test_a_router_that_was_stopped_reads_first_and_judges_then(bench: Bench):
    stream = bench.joined()
    sweeping = asyncio.ensure_future(bench.watch.sweep_forever())
    await asyncio.sleep(0)
    lists = bench.watch.node_lists()
    await anext(lists)
    bench.clock.advance(60.0)  # nothing was read meanwhile

    def read() -> None:
        bench.watch.hear(stream, NodeLoad())
        bench.clock.advance(3.0)

    asyncio.get_running_loop().call_later(1.2 * SWEEP_PERIOD_S, read)
    _, nodes = await anext(lists)
    assert [node.state for node in nodes] == [NodeState.SUSPECT]  # and not forgotten
    sweeping.cancel()
    await asyncio.wait({sweeping})


async def test_a_node_that_does_not_tell_what_it_holds_is_told_of(bench: Bench, caplog):
    caplog.set_level(logging.INFO)
    stream = bench.joined()
    beat = NodeLoad(tiers=(TierUsage(Tier.DRAM, 10**6, 0, 10**6, 1000),))
    for _ in range(12):
        bench.watch.hear(stream, beat)
        bench.watch.sweep()
        bench.clock.advance(1.0)
    assert bench.meters.value("router_feed_alarms", trouble="short") == 1
    assert bench.meters.value("router_index_lag_seconds") == 11
    assert "FeedAlarmed node_id=a trouble=short said_blocks=1000 named_blocks=0" in caplog.text
    bench.watch.hear(stream, EMPTY)
    bench.watch.hear(stream, NodeLoad())
    bench.watch.sweep()
    assert bench.meters.value("router_feed_alarms", trouble="short") == 0
    assert "FeedHealed node_id=a" in caplog.text


async def test_watchers_get_the_list_at_once_and_after_every_change(bench: Bench):
    lists = bench.watch.node_lists()
    version, nodes = await anext(lists)
    assert nodes == []
    stream = bench.joined()
    newer, nodes = await anext(lists)
    assert newer > version
    assert [node.node_id for node in nodes] == [A]
    bench.watch.hear(stream, NodeLoad())
    waiting = asyncio.ensure_future(anext(lists))
    bench.watch.lose(stream)
    newest, _ = await waiting
    assert newest > newer
    await lists.aclose()


async def test_a_slow_watcher_gets_the_latest_list_only(bench: Bench):
    lists = bench.watch.node_lists()
    await anext(lists)
    bench.watch.lose(bench.joined())
    bench.joined()
    version, _ = await anext(lists)
    assert version == bench.cluster.membership.version
    await lists.aclose()


async def test_closing_ends_streams_and_watching(bench: Bench):
    stream, lists = bench.joined(), bench.watch.node_lists()
    await anext(lists)
    bench.watch.close()
    await stream.closed()
    assert [found async for found in lists] == []
    assert bench.watch.open().is_closed


async def test_the_index_is_measured_by_every_sweep(bench: Bench):
    stream = bench.joined()
    bench.watch.hear(stream, SnapshotPart(NS, Tier.DRAM, KEYS, is_first=True, is_last=True))
    bench.watch.sweep()
    assert bench.meters.value("router_index_keys") == 1  # two equal keys


async def test_sweeping_goes_on_until_it_is_cancelled(bench: Bench):
    mute = bench.watch.open()
    bench.clock.advance(LEASE_S + 1)
    sweeping = asyncio.ensure_future(bench.watch.sweep_forever())
    await mute.closed()
    sweeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sweeping
