"""router/inventory.py: what a node says of its blocks, whatever it says."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.routing import BlockEvent, EventBatch, EventsAck, NodeLoad, ResyncOrder
from hearthkv.core.routing import SnapshotPart as Part
from hearthkv.core.tier import Tier, TierUsage
from router.inventory import (
    NO_NEWS,
    RESYNC_AGAIN_S,
    RESYNC_EVERY_S,
    SNAPSHOT_S_MAX,
    Inventory,
    InventoryState,
    News,
)

NS = b"n" * 16
KEYS = PackedKeys(b"k" * 16)
NO_KEYS = PackedKeys(b"")
EVENT = BlockEvent(NS, KEYS, Tier.DRAM)


def part(*, first: bool = False, last: bool = False) -> Part:
    return Part(NS, Tier.DRAM, KEYS, first, last)


def load(blocks: int, sequence: int = 0) -> NodeLoad:
    return NodeLoad(sequence, (TierUsage(Tier.DRAM, blocks * 100, 0, 10_000, blocks),))


@pytest.fixture
def awaited() -> Inventory:
    return Inventory(0.0)


@pytest.fixture
def followed(awaited: Inventory) -> Inventory:
    awaited.hear_snapshot(part(first=True, last=True), 1.0)
    return awaited


def test_a_snapshot_voids_what_was_known_and_brings_its_parts(awaited: Inventory):
    assert awaited.state is InventoryState.AWAITED
    assert awaited.hear_snapshot(part(first=True), 1.0) == News(is_void=True, events=(EVENT,))
    assert awaited.state is InventoryState.ARRIVING
    assert awaited.lag_s(1.0) == 1.0
    assert awaited.hear_snapshot(part(last=True), 2.0) == News(events=(EVENT,))
    assert awaited.state is InventoryState.FOLLOWED
    assert awaited.lag_s(3.0) == 0.0


def test_a_snapshot_may_come_twice(followed: Inventory):
    assert followed.hear_snapshot(part(first=True), 5.0).is_void
    assert followed.lag_s(7.0) == 2.0
    followed.hear_snapshot(Part(b"", None, NO_KEYS, False, True), 8.0)
    assert followed.hear_events(EventBatch(1, (EVENT,)), 8.0) == News(
        events=(EVENT,), answer=EventsAck(1)
    )


def test_a_lie_about_numbers_is_asked_about_once_a_second_at_most(followed: Inventory):
    assert followed.hear_events(EventBatch(9), 5.0).answer == ResyncOrder(1, 9)
    followed.hear_snapshot(part(first=True, last=True), 5.1)
    assert followed.hear_events(EventBatch(8), 5.2) == NO_NEWS
    assert followed.hear_events(EventBatch(1, (EVENT,)), 5.3) == NO_NEWS
    assert followed.overdue(5.9) == NO_NEWS
    assert followed.overdue(5.0 + RESYNC_EVERY_S).answer == ResyncOrder(1, 8)
    assert followed.overdue(5.5 + RESYNC_EVERY_S) == NO_NEWS


def test_a_snapshot_that_comes_by_itself_settles_what_was_put_off(followed: Inventory):
    followed.hear_events(EventBatch(9), 5.0)
    followed.hear_snapshot(part(first=True, last=True), 5.1)
    followed.hear_events(EventBatch(8), 5.2)
    followed.hear_snapshot(part(first=True, last=True), 5.3)
    assert followed.overdue(7.0) == NO_NEWS


def test_an_order_that_is_not_followed_is_given_again(followed: Inventory):
    followed.order_resync(0, 5.0)
    assert followed.overdue(5.0 + RESYNC_AGAIN_S) == NO_NEWS
    assert followed.overdue(5.1 + RESYNC_AGAIN_S).answer == ResyncOrder(1, 0)
    assert followed.overdue(5.2 + RESYNC_AGAIN_S) == NO_NEWS


def test_a_snapshot_that_stops_halfway_is_asked_for_again(awaited: Inventory):
    awaited.hear_snapshot(part(first=True), 1.0)
    awaited.hear_snapshot(part(), 9.0)
    assert awaited.overdue(9.0 + RESYNC_AGAIN_S) == NO_NEWS
    assert awaited.overdue(9.1 + RESYNC_AGAIN_S).answer == ResyncOrder(1, 0)
    assert awaited.hear_snapshot(part(last=True), 20.0) == NO_NEWS


def test_a_snapshot_that_never_ends_is_asked_for_again(awaited: Inventory):
    awaited.hear_snapshot(part(first=True), 1.0)
    for second in range(2, int(SNAPSHOT_S_MAX) + 2):
        assert awaited.hear_snapshot(part(), float(second)).events == (EVENT,)
        assert awaited.overdue(float(second)) == NO_NEWS
    assert awaited.overdue(1.1 + SNAPSHOT_S_MAX).answer == ResyncOrder(1, 0)
    assert awaited.lag_s(1.1 + SNAPSHOT_S_MAX) == 1.1 + SNAPSHOT_S_MAX


def test_blocks_that_no_event_tells_of_are_noticed(followed: Inventory):
    followed.hear_load(load(3), 2.0)
    assert followed.untold_s(3.0) == 0.0
    followed.hear_load(load(4), 3.0)
    followed.hear_load(load(5), 4.0)
    assert followed.said_blocks == 5
    assert followed.untold_s(9.0) == 6.0
    followed.hear_events(EventBatch(1, (EVENT,)), 9.0)
    assert followed.untold_s(9.0) == 0.0
    followed.hear_load(load(5, sequence=1), 10.0)
    assert followed.untold_s(20.0) == 0.0


def test_blocks_that_came_and_went_need_no_event(followed: Inventory):
    for at, blocks in ((2.0, 3), (3.0, 4), (4.0, 3)):
        followed.hear_load(load(blocks), at)
    assert followed.untold_s(9.0) == 0.0


messages = st.one_of(
    st.builds(part, first=st.booleans(), last=st.booleans()),
    st.builds(EventBatch, st.integers(0, 3), st.just((EVENT,))),
    st.builds(load, st.integers(0, 3), st.integers(0, 3)),
)


@given(st.lists(st.tuples(messages, st.floats(0, 20))))
def test_whatever_a_node_says_it_is_ordered_once_a_second_at_most_and_can_heal(said):
    now, orders = 0.0, []
    inventory = Inventory(now)
    for message, pause_s in said:
        now += pause_s
        if isinstance(message, Part):
            news = inventory.hear_snapshot(message, now)
        elif isinstance(message, EventBatch):
            news = inventory.hear_events(message, now)
        else:
            news = inventory.hear_load(message, now)
        answers = (news.answer, inventory.overdue(now).answer)
        orders += [now for answer in answers if isinstance(answer, ResyncOrder)]
    assert all(b - a >= RESYNC_EVERY_S for a, b in pairwise(orders))
    inventory.hear_snapshot(part(first=True, last=True), now)
    assert inventory.hear_events(EventBatch(1), now).answer == EventsAck(1)
    assert inventory.lag_s(now) == 0.0
