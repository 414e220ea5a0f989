"""Numbered events and inventories for routers: I6."""

import pytest

from cachenode import event_log
from cachenode.event_log import EventLog, snapshot_parts
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.routing import BlockEvent, EventBatch, SnapshotPart
from hearthkv.core.tier import Tier
from tests.unit.cachenode.catalog_kit import NAMESPACE_ID, key, keys

OTHER_ID = b"o" * 16


def test_a_subscription_wants_an_inventory_first():
    subscription = EventLog().subscribe()
    assert subscription.is_overrun
    subscription.restart()
    assert not subscription.is_overrun


def test_batches_are_numbered_from_one_and_hold_what_happened_in_order():
    log = EventLog()
    subscription = log.subscribe()
    subscription.restart()
    log.record(NAMESPACE_ID, key(1), Tier.DRAM)
    log.record(NAMESPACE_ID, key(2), Tier.DRAM)
    log.record(NAMESPACE_ID, key(1), Tier.SSD)
    log.record(OTHER_ID, key(3), Tier.SSD)
    assert subscription.take() == EventBatch(
        1,
        (
            BlockEvent(NAMESPACE_ID, keys(1, 2), Tier.DRAM),
            BlockEvent(NAMESPACE_ID, keys(1), Tier.SSD),
            BlockEvent(OTHER_ID, keys(3), Tier.SSD),
        ),
    )
    assert subscription.take() is None
    log.record(NAMESPACE_ID, key(1), None)
    assert subscription.take() == EventBatch(2, (BlockEvent(NAMESPACE_ID, keys(1), None),))
    assert subscription.sequence == 2


def test_a_batch_has_a_most_of_keys():
    log = EventLog()
    subscription = log.subscribe()
    subscription.restart()
    for number in (1, 2, 3):
        log.record(NAMESPACE_ID, key(number), Tier.DRAM)
    batches = [subscription.take(keys_max=2), subscription.take(keys_max=2)]
    assert [len(batch.events[0].keys) for batch in batches if batch] == [2, 1]


def test_keys_of_different_width_are_different_events():
    log = EventLog()
    subscription = log.subscribe()
    subscription.restart()
    log.record(NAMESPACE_ID, b"k" * 16, Tier.DRAM)
    log.record(NAMESPACE_ID, b"k" * 32, Tier.DRAM)
    batch = subscription.take()
    assert batch is not None
    assert [event.keys.width for event in batch.events] == [16, 32]


def test_too_many_changes_are_an_overrun_that_only_a_restart_ends():
    log = EventLog(changes_max=2)
    slow, quick = log.subscribe(), log.subscribe()
    slow.restart()
    quick.restart()
    for number in (1, 2, 3):
        log.record(NAMESPACE_ID, key(number), Tier.DRAM)
        assert quick.take() is not None
    assert slow.is_overrun
    assert not quick.is_overrun
    log.record(NAMESPACE_ID, key(4), Tier.DRAM)
    assert slow.take() is None
    slow.restart()
    log.record(NAMESPACE_ID, key(5), Tier.DRAM)
    assert slow.take() == EventBatch(1, (BlockEvent(NAMESPACE_ID, keys(5), Tier.DRAM),))


def test_a_closed_subscription_hears_nothing():
    log = EventLog()
    subscription = log.subscribe()
    subscription.restart()
    subscription.close()
    log.record(NAMESPACE_ID, key(1), Tier.DRAM)
    assert subscription.take() is None


def test_an_empty_inventory_is_one_part():
    assert list(snapshot_parts({})) == [SnapshotPart(b"", None, PackedKeys(b""), True, True)]


def test_an_inventory_is_cut_by_namespace_tier_width_and_length(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(event_log, "SNAPSHOT_KEYS_MAX", 2)
    wide = b"w" * 32
    parts = list(
        snapshot_parts(
            {
                (NAMESPACE_ID, Tier.DRAM): [key(1), wide, key(2), key(3)],
                (OTHER_ID, Tier.SSD): [key(4)],
            }
        )
    )
    assert parts == [
        SnapshotPart(NAMESPACE_ID, Tier.DRAM, keys(1, 2), is_first=True, is_last=False),
        SnapshotPart(NAMESPACE_ID, Tier.DRAM, keys(3), is_first=False, is_last=False),
        SnapshotPart(NAMESPACE_ID, Tier.DRAM, PackedKeys(wide, 32), False, False),
        SnapshotPart(OTHER_ID, Tier.SSD, keys(4), is_first=False, is_last=True),
    ]
