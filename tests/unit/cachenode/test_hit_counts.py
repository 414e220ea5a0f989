"""Tests of `cachenode.hit_counts`."""

from cachenode.hit_counts import HitCounts
from hearthkv.core.tier import Tier


def test_nothing_asked_is_no_hit():
    assert HitCounts().ratios() == {Tier.HBM: 0, Tier.DRAM: 0, Tier.SSD: 0}


def test_what_was_found_is_a_share_of_what_was_asked():
    hits = HitCounts()
    hits.asked(6)
    hits.found(Tier.DRAM)
    hits.asked(2)
    hits.found(Tier.SSD, 4)
    assert hits.ratios() == {Tier.HBM: 0, Tier.DRAM: 1 / 8, Tier.SSD: 1 / 2}
