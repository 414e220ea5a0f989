"""router/prompt_view.py: who holds how much of a prompt, and in which tiers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.block_key import PackedKeys, SampledKeys
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier, TierCounts
from router.prefix_index import PrefixIndex

NS, OTHER_NS = b"n" * 16, b"o" * 16
A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def prompt(blocks: int, name: int = 0) -> PackedKeys:
    """A prompt of its own."""
    return PackedKeys(b"".join(bytes([name, *index.to_bytes(3)]) for index in range(blocks)), 4)


def index_of(*held: tuple[NodeId, PackedKeys, Tier]) -> PrefixIndex:
    index = PrefixIndex(10_000)
    for node_id, keys, tier in held:
        index.add(node_id, NS, keys, tier)
    return index


def prefixes(index: PrefixIndex, namespace_id: bytes, keys: PackedKeys) -> dict[NodeId, int]:
    return dict(index.look_up(namespace_id, SampledKeys.all_of(keys)).prefixes())


def tiers(index: PrefixIndex, node_id: NodeId, namespace_id: bytes, keys: PackedKeys) -> TierCounts:
    return index.look_up(namespace_id, SampledKeys.all_of(keys)).exact_tiers(node_id, len(keys))


def test_a_prompt_without_keys_matches_nothing():
    assert prefixes(index_of((A, prompt(5), Tier.DRAM)), NS, prompt(0)) == {}


@given(st.permutations([(A, 10), (B, 20), (C, 30)]))
def test_every_node_has_its_own_longest_prefix_in_whatever_order_they_reported(held):
    index = index_of(*((node_id, prompt(blocks), Tier.DRAM) for node_id, blocks in held))
    assert prefixes(index, NS, prompt(40)) == {A: 10, B: 20, C: 30}
    assert prefixes(index, NS, prompt(15)) == {A: 10, B: 15, C: 15}


def test_namespaces_do_not_meet():
    index = index_of((A, prompt(5), Tier.DRAM))
    assert prefixes(index, OTHER_NS, prompt(5)) == {}


def test_keys_of_another_width_do_not_match():
    index = index_of((A, PackedKeys(b"aaaa", 2), Tier.DRAM))
    assert prefixes(index, NS, PackedKeys(b"aaaa", 4)) == {}


def test_tiers_are_exact_for_every_node():
    keys = prompt(10)
    index = index_of(
        (A, keys, Tier.DRAM),
        (A, keys.slice(6, 10), Tier.SSD),
        (B, keys.slice(0, 3), Tier.HBM),
        (B, keys.slice(3, 4), Tier.SSD),
    )
    assert tiers(index, A, NS, keys.slice(0, 8)) == TierCounts(dram=6, ssd=2)
    assert tiers(index, B, NS, keys.slice(0, 4)) == TierCounts(hbm=3, ssd=1)


@pytest.mark.parametrize("blocks", [255, 256, 257, 700])
def test_tiers_of_long_prompts_are_exact(blocks: int):
    keys = prompt(blocks)
    index = index_of((A, keys.slice(0, 200), Tier.SSD), (A, keys.slice(200, blocks), Tier.DRAM))
    assert tiers(index, A, NS, keys) == TierCounts(dram=blocks - 200, ssd=200)


def test_tiers_of_a_node_with_one_tier_in_use_are_that_tier():
    index = index_of((A, prompt(10), Tier.SSD), (A, prompt(10), Tier.DRAM))
    assert tiers(index, A, NS, prompt(7)) == TierCounts(dram=7)


def test_a_block_whose_tier_is_not_known_counts_as_the_slowest():
    keys = prompt(4)
    index = index_of((A, keys.slice(1, 3), Tier.HBM), (A, keys.slice(3, 4), Tier.DRAM))
    assert tiers(index, A, NS, keys) == TierCounts(hbm=2, dram=1, ssd=1)
    assert tiers(index, B, NS, keys) == TierCounts(ssd=4)


def test_a_block_that_bisection_meets_proves_those_before_it_i2():
    index = index_of((A, prompt(4).slice(3, 4), Tier.DRAM), (B, prompt(8), Tier.DRAM))
    assert prefixes(index, NS, prompt(8)) == {A: 4, B: 8}


def test_a_gap_costs_a_shorter_match_i6():
    index = index_of((A, prompt(8).slice(7, 8), Tier.DRAM), (B, prompt(8), Tier.DRAM))
    assert prefixes(index, NS, prompt(8)) == {B: 8}


POSITIONS = (8, 16, 50, 51, 100)
SAMPLED = SampledKeys(PackedKeys.join([prompt(100)[at - 1] for at in POSITIONS]), POSITIONS)


@pytest.mark.parametrize(
    ("held", "expected"), [(7, {}), (8, {A: 8}), (49, {A: 16}), (50, {A: 50}), (100, {A: 100})]
)
def test_of_sampled_keys_the_last_one_that_is_held_counts(held, expected):
    index = index_of((A, prompt(held), Tier.DRAM))
    assert dict(index.look_up(NS, SAMPLED).prefixes()) == expected


@pytest.mark.parametrize("count", ["tiers", "exact_tiers"])
def test_a_sampled_key_tells_the_tier_of_the_blocks_before_it(count):
    index = index_of((A, prompt(50), Tier.DRAM), (A, prompt(60).slice(50, 60), Tier.SSD))
    view = index.look_up(NS, SAMPLED)
    assert getattr(view, count)(A, 51) == TierCounts(dram=50, ssd=1)
    assert getattr(view, count)(A, 50) == TierCounts(dram=50)
    assert getattr(view, count)(A, 0) == TierCounts()


@given(
    st.lists(st.tuples(st.sampled_from(Tier), st.integers(600, 700)), min_size=1, max_size=2),
    st.integers(1, 1200),
    st.booleans(),
)
def test_the_ends_of_runs_are_found_to_a_16th(runs, blocks, is_prefix_searched):
    index, start = PrefixIndex(10_000), 0
    for tier, length in runs:
        index.add(A, NS, prompt(1400).slice(start, start + length), tier)
        start += length
    blocks = min(blocks, start)
    view = index.look_up(NS, SampledKeys.all_of(prompt(blocks)))
    if is_prefix_searched:
        assert view.prefixes() == {A: blocks}
    found, exact = view.tiers(A, blocks), view.exact_tiers(A, blocks)
    assert found.total == blocks
    for tier in Tier:
        assert abs(found.of(tier) - exact.of(tier)) <= 2 * (blocks // 16)
    if blocks < 128:
        assert found == exact


@given(st.lists(st.sampled_from(Tier), min_size=1, max_size=300), st.data())
def test_an_estimate_counts_every_block_once(tiers_of_blocks, data):
    index, keys = PrefixIndex(10_000), prompt(len(tiers_of_blocks))
    for tier in Tier:
        of_tier = [key for key, at in zip(keys, tiers_of_blocks, strict=True) if at is tier]
        index.add(A, NS, PackedKeys.join(of_tier), tier)
    blocks = data.draw(st.integers(1, len(tiers_of_blocks)))
    counts = index.look_up(NS, SampledKeys.all_of(keys)).tiers(A, blocks)
    assert counts.total == blocks
    if blocks <= 3:
        assert counts == TierCounts.count(tiers_of_blocks[:blocks])


def test_what_was_probed_is_remembered():
    index = index_of(
        (A, prompt(50), Tier.DRAM), (A, prompt(9), Tier.SSD), (B, prompt(50), Tier.HBM)
    )
    view = index.look_up(NS, SampledKeys.all_of(prompt(50)))
    assert view.tiers(A, 50) == TierCounts(dram=41, ssd=9)
    view._table = None
    assert view.tiers(A, 50) == TierCounts(dram=41, ssd=9)
    assert view.tiers(B, 50) == TierCounts(hbm=50)
    assert view.tiers(C, 50) == TierCounts(ssd=50)
