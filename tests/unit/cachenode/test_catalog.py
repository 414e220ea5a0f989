"""The catalog as one: what its parts do is tested with them."""

from cachenode.event_log import EventLog
from hearthkv.core.block_io import DropNamespace, NamespaceUsage, Pinned, PinQuery
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.routing import SnapshotPart
from hearthkv.core.tier import Tier, TierUsage
from tests.unit.cachenode import catalog_kit
from tests.unit.cachenode.catalog_kit import (
    NAMESPACE_ID,
    SPEC,
    erase,
    keys,
    new_catalog,
    settle,
    ticket,
    tiers,
    used_blocks,
    write,
)


def test_usage_tells_both_tiers_with_their_troubles():
    catalog = new_catalog(dram=2, ssd=3)
    write(catalog, 1)
    ticket(catalog, 2)
    catalog.set_trouble(Tier.SSD, "failing")
    assert catalog.trouble(Tier.SSD) == "failing"
    assert catalog.usage() == (
        TierUsage(Tier.DRAM, 100, 100, 200, 1),
        TierUsage(Tier.SSD, 0, 0, 300, 0, "failing"),
    )


def test_namespaces_are_described_while_anything_is_left_of_them():
    catalog = new_catalog()
    write(catalog, 1, 2)
    assert catalog.namespaces() == (NamespaceUsage(SPEC, 2),)
    assert catalog.spec_of(NAMESPACE_ID) == SPEC
    catalog.check_namespace(SPEC)
    catalog.drop(DropNamespace(NAMESPACE_ID))
    assert catalog.spec_of(NAMESPACE_ID) is None


def test_a_pin_keeps_the_longest_held_prefix_for_its_time():
    catalog = new_catalog(dram=0, ssd=2, threshold=0.5)
    write(catalog, 1, 2)
    query = PinQuery(NAMESPACE_ID, keys(1, 2, 3), ttl_s=5)
    assert catalog.pin(query, pin_id="p", now=10) == Pinned("p", 2)
    assert catalog.pin_count == 1
    assert settle(catalog) == 0
    assert catalog.expire_pins(14.9) == 0
    assert catalog.expire_pins(15) == 1
    assert settle(catalog) == 1
    assert tiers(catalog, 1, 2) == "s-"


def test_a_pin_that_is_ended_before_its_time_says_how_many_blocks_it_kept():
    catalog = new_catalog()
    write(catalog, 1, 2)
    catalog.pin(PinQuery(NAMESPACE_ID, keys(1, 2), ttl_s=5), pin_id="p", now=0)
    assert catalog.unpin("p") == 2
    assert catalog.unpin("p") == 0


def test_nothing_held_is_nothing_pinned():
    query = PinQuery(NAMESPACE_ID, keys(1), ttl_s=5)
    assert new_catalog().pin(query, pin_id="p", now=0) == Pinned("", 0)


def test_too_many_pins_are_refused(monkeypatch):
    monkeypatch.setattr("cachenode.pins.PINS_MAX", 1)
    catalog = new_catalog()
    write(catalog, 1)
    query = PinQuery(NAMESPACE_ID, keys(1), ttl_s=5)
    catalog.pin(query, pin_id="p", now=0)
    assert catalog.pin(query, pin_id="q", now=0) == Pinned("", 0)


def test_erasures_of_both_tiers_share_a_batch_and_come_again_if_they_fail():
    catalog = new_catalog(dram=1)
    write(catalog, 1, 2)
    catalog.drop(DropNamespace(NAMESPACE_ID))
    assert len(catalog.plan_erasures(blocks_max=1)) == 1
    failed = catalog.plan_erasures(blocks_max=1)
    assert [ref.tier for ref in failed] == [Tier.SSD]
    assert catalog.plan_erasures() == ()
    catalog.abort_erase(failed)
    assert erase(catalog) == failed
    assert used_blocks(catalog) == (1, 0)


def test_a_touched_path_is_the_hottest_and_an_unknown_key_no_matter():
    catalog = new_catalog()
    write(catalog, 1)
    write(catalog, 2)
    catalog.touch(NAMESPACE_ID, keys(1)[0])
    catalog.touch(NAMESPACE_ID, keys(9)[0])
    ranked = catalog._holdings.policy.victims(Tier.DRAM, 9)
    assert [block.key for block in ranked] == list(keys(2, 1))


def test_the_inventory_is_that_of_the_call_and_not_of_the_reading():
    catalog = new_catalog(dram=1)
    write(catalog, 1, 2)
    parts = catalog.snapshot()
    catalog.drop(DropNamespace(NAMESPACE_ID))
    assert list(parts) == [
        SnapshotPart(NAMESPACE_ID, Tier.DRAM, keys(1), is_first=True, is_last=False),
        SnapshotPart(NAMESPACE_ID, Tier.SSD, keys(2), is_first=False, is_last=True),
    ]
    assert [part.keys for part in catalog.snapshot()] == [PackedKeys(b"")]


def test_a_given_event_log_is_told_the_changes():
    log = EventLog()
    subscription = log.subscribe()
    subscription.restart()
    limits = catalog_kit.limits(2)
    policy = catalog_kit.policy_named("lru_with_media_priority")
    catalog = catalog_kit.Catalog(
        dram=limits, ssd=limits, offload_threshold=1.0, policy=policy, events=log
    )
    assert catalog.events is log
    write(catalog, 1)
    assert subscription.take() is not None
