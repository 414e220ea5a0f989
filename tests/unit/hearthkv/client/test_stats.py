"""Tests of hearthkv/client/stats.py."""

from hearthkv.client.outcome import Finished, Loaded, MissReason
from hearthkv.client.stats import ClientStats
from hearthkv.core.tier import Tier, TierCounts


def test_nothing_is_no_hit():
    assert ClientStats().hit_ratio == 0.0


def test_the_hit_ratio_is_cached_tokens_by_prompt_tokens():
    stats = ClientStats()
    stats.count_turn(100, MissReason.NOT_HELD)
    stats.count_turn(300, None)
    stats.count_load(Loaded(15, 240, TierCounts(dram=10, ssd=5), MissReason.LOST), block_size=16)
    assert (stats.requests, stats.prompt_tokens) == (2, 400)
    assert stats.cached_tokens == {Tier.HBM: 0, Tier.DRAM: 160, Tier.SSD: 80}
    assert stats.hit_ratio == 0.6
    assert stats.misses == {MissReason.NOT_HELD: 1, MissReason.LOST: 1}


def test_the_saves_of_a_turn_are_counted_once_however_often_it_is_finished():
    stats = ClientStats()
    first = Finished(saved_blocks=3, refused_blocks=1, miss=MissReason.NO_ROOM)
    stats.count_saves(Finished(), first)
    stats.count_saves(first, first)
    stats.count_saves(first, Finished(saved_blocks=5, refused_blocks=1, miss=MissReason.NO_ROOM))
    assert (stats.saved_blocks, stats.refused_blocks) == (5, 1)
    assert stats.misses == {MissReason.NO_ROOM: 1}


def test_what_went_past_the_node_is_counted_apart():
    stats = ClientStats()
    stats.count_load(Loaded(5, 80, TierCounts(dram=5), direct_blocks=3), block_size=16)
    stats.count_saves(Finished(), Finished(saved_blocks=4, direct_blocks=2))
    assert (stats.loaded_blocks, stats.direct_blocks) == (5, 3)
    assert (stats.saved_blocks, stats.direct_saved_blocks) == (4, 2)
