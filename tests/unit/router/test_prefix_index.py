"""router/prefix_index.py: who holds which prefix, against a naive model."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier, TierCounts
from router import prefix_index
from router.prefix_index import PrefixIndex

NS, OTHER_NS = b"n" * 16, b"o" * 16
A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def prompt(blocks: int, name: int = 0) -> PackedKeys:
    """A prompt of its own."""
    return PackedKeys(b"".join(bytes([name, *index.to_bytes(3)]) for index in range(blocks)), 4)


def index_of(*held: tuple[NodeId, PackedKeys, Tier], keys_max: int = 1000) -> PrefixIndex:
    index = PrefixIndex(keys_max)
    for node_id, keys, tier in held:
        index.add(node_id, NS, keys, tier)
    return index


def test_an_empty_index_matches_nothing():
    index = PrefixIndex(10)
    assert index.prefixes(NS, prompt(5)) == {}
    assert index.tiers(A, NS, prompt(0)) == TierCounts()
    assert (index.keys, index.keys_of(A), index.missing_keys_of(A)) == (0, 0, 0)


def test_a_prompt_without_keys_matches_nothing():
    assert index_of((A, prompt(5), Tier.DRAM)).prefixes(NS, prompt(0)) == {}


@given(st.permutations([(A, 10), (B, 20), (C, 30)]))
def test_every_node_has_its_own_longest_prefix_in_whatever_order_they_reported(held):
    index = index_of(*((node_id, prompt(blocks), Tier.DRAM) for node_id, blocks in held))
    assert index.prefixes(NS, prompt(40)) == {A: 10, B: 20, C: 30}
    assert index.prefixes(NS, prompt(15)) == {A: 10, B: 15, C: 15}


def test_namespaces_do_not_meet():
    index = index_of((A, prompt(5), Tier.DRAM))
    assert index.prefixes(OTHER_NS, prompt(5)) == {}


def test_keys_of_another_width_do_not_match():
    index = index_of((A, PackedKeys(b"aaaa", 2), Tier.DRAM))
    assert index.prefixes(NS, PackedKeys(b"aaaa", 4)) == {}


def test_tiers_are_exact_for_every_node():
    keys = prompt(10)
    index = index_of(
        (A, keys, Tier.DRAM),
        (A, keys.slice(6, 10), Tier.SSD),
        (B, keys.slice(0, 3), Tier.HBM),
        (B, keys.slice(3, 4), Tier.SSD),
    )
    assert index.tiers(A, NS, keys.slice(0, 8)) == TierCounts(dram=6, ssd=2)
    assert index.tiers(B, NS, keys.slice(0, 4)) == TierCounts(hbm=3, ssd=1)


@pytest.mark.parametrize("blocks", [255, 256, 257, 700])
def test_tiers_of_long_prompts_are_exact(blocks: int):
    keys = prompt(blocks)
    index = index_of((A, keys.slice(0, 200), Tier.SSD), (A, keys.slice(200, blocks), Tier.DRAM))
    assert index.tiers(A, NS, keys) == TierCounts(dram=blocks - 200, ssd=200)


def test_tiers_of_a_node_with_one_tier_in_use_are_that_tier():
    index = index_of((A, prompt(10), Tier.SSD), (A, prompt(10), Tier.DRAM))
    assert index.tiers(A, NS, prompt(7)) == TierCounts(dram=7)


def test_a_block_whose_tier_is_not_known_counts_as_the_slowest():
    keys = prompt(4)
    index = index_of((A, keys.slice(1, 3), Tier.HBM), (A, keys.slice(3, 4), Tier.DRAM))
    assert index.tiers(A, NS, keys) == TierCounts(hbm=2, dram=1, ssd=1)
    assert index.tiers(B, NS, keys) == TierCounts(ssd=4)


def test_a_block_that_bisection_meets_proves_those_before_it_i2():
    index = index_of((A, prompt(4).slice(3, 4), Tier.DRAM), (B, prompt(8), Tier.DRAM))
    assert index.prefixes(NS, prompt(8)) == {A: 4, B: 8}


def test_a_gap_costs_a_shorter_match_i6():
    index = index_of((A, prompt(8).slice(7, 8), Tier.DRAM), (B, prompt(8), Tier.DRAM))
    assert index.prefixes(NS, prompt(8)) == {B: 8}


def test_removed_blocks_shorten_the_match_and_unknown_ones_are_no_matter():
    index = index_of((A, prompt(10), Tier.DRAM))
    index.remove(A, NS, prompt(12).slice(4, 12))
    index.remove(A, OTHER_NS, prompt(10))
    index.remove(B, NS, prompt(10))
    assert index.prefixes(NS, prompt(10)) == {A: 4}
    assert index.keys == index.keys_of(A) == 4


def test_a_forgotten_node_matches_nothing_at_once_and_its_memory_is_freed_in_pieces():
    index = index_of((A, prompt(10), Tier.DRAM), (B, prompt(10), Tier.DRAM))
    index.forget(A)
    index.forget(A)
    assert index.prefixes(NS, prompt(10)) == {B: 10}
    assert (index.keys, index.keys_of(A), index.retired_keys) == (10, 0, 10)
    assert [index.sweep(4), index.sweep(4), index.sweep(4)] == [6, 2, 0]
    assert index.prefixes(NS, prompt(10)) == {B: 10}


def test_a_node_that_comes_back_before_its_memory_is_freed_starts_with_nothing():
    index = index_of((A, prompt(10), Tier.DRAM))
    index.forget(A)
    index.add(A, NS, prompt(3), Tier.SSD)
    assert index.prefixes(NS, prompt(10)) == {A: 3}
    index.sweep(100)
    assert index.prefixes(NS, prompt(10)) == {A: 3}
    assert index.tiers(A, NS, prompt(3)) == TierCounts(ssd=3)


def test_what_is_freed_leaves_nothing_behind():
    index = index_of((A, prompt(10), Tier.DRAM), (B, prompt(5), Tier.SSD))
    for node_id in (A, B):
        index.forget(node_id)
    index.sweep(100)
    assert index._holders == {}
    assert sorted(index._free_bits) == [1, 2]


def test_a_full_index_gives_a_node_over_its_share_nothing_more():
    index = index_of((A, prompt(10), Tier.DRAM), keys_max=10)
    index.add(A, NS, prompt(3, name=1), Tier.DRAM)
    assert index.prefixes(NS, prompt(10)) == {A: 10}
    assert index.prefixes(NS, prompt(3, name=1)) == {}
    assert (index.keys, index.missing_keys_of(A)) == (10, 3)


def test_a_full_index_still_takes_moves_between_tiers():
    index = index_of((A, prompt(10), Tier.DRAM), keys_max=10)
    index.add(A, NS, prompt(10), Tier.SSD)
    assert index.tiers(A, NS, prompt(10)) == TierCounts(ssd=10)


def test_a_flood_of_one_node_does_not_push_another_below_its_share():
    index = PrefixIndex(100)
    index.add(A, NS, prompt(1000, name=1), Tier.DRAM)
    index.add(B, NS, prompt(30), Tier.DRAM)
    index.add(A, NS, prompt(1000, name=2), Tier.DRAM)
    assert index.prefixes(NS, prompt(30)) == {B: 30}
    assert index.missing_keys_of(B) == 0
    assert index.keys <= 100
    index.add(B, NS, prompt(1000), Tier.DRAM)
    assert index.keys_of(B) >= 50
    assert index.keys_of(A) == 100 - index.keys_of(B)


def test_room_is_made_from_the_newest_keys_of_the_largest_node():
    index = PrefixIndex(90)
    index.add(A, NS, prompt(60), Tier.DRAM)
    index.add(B, NS, prompt(30, name=1), Tier.DRAM)
    index.add(C, NS, prompt(10, name=2), Tier.DRAM)
    assert index.prefixes(NS, prompt(10, name=2)) == {C: 10}
    assert index.prefixes(NS, prompt(30, name=1)) == {B: 30}
    # Room is made down to A's share at once, and its oldest keys, the roots, stay.
    assert index.prefixes(NS, prompt(60)) == {A: 30}
    assert index.missing_keys_of(A) == 30


def test_room_is_made_from_forgotten_nodes_first():
    index = index_of((A, prompt(10), Tier.DRAM), keys_max=10)
    index.forget(A)
    index.add(B, NS, prompt(10, name=1), Tier.DRAM)
    assert index.prefixes(NS, prompt(10, name=1)) == {B: 10}
    assert (index.keys, index.retired_keys) == (10, 0)


def test_an_index_smaller_than_the_number_of_nodes_stays_bounded():
    index = PrefixIndex(1)
    for node_id in (A, B, C):
        index.add(node_id, NS, prompt(2), Tier.DRAM)
    assert index.keys == 1
    assert index.prefixes(NS, prompt(2)) == {A: 1}


def test_equal_holder_sets_are_one_object():
    nodes = [NodeId(f"n{number}") for number in range(70)]
    index = index_of(*((node_id, prompt(3), Tier.DRAM) for node_id in nodes))
    first, second, third = index._holders[NS].values()
    assert first is second is third


def test_the_table_of_holder_sets_is_bounded(monkeypatch):
    monkeypatch.setattr(prefix_index, "_INTERNED_SETS_MAX", 2)
    nodes = [NodeId(f"n{number}") for number in range(70)]
    index = index_of(*((node_id, prompt(3), Tier.DRAM) for node_id in nodes))
    assert len(index._interned) <= 2
    assert index.prefixes(NS, prompt(3)) == dict.fromkeys(nodes, 3)


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_lies_harms_no_other_i6(seed: int):
    rng = random.Random(seed)
    index = index_of((A, prompt(20), Tier.DRAM), keys_max=200)
    everything = [prompt(20), prompt(50, name=1), prompt(300, name=2)]
    for _ in range(200):
        keys = rng.choice(everything)
        start = rng.randrange(len(keys))
        piece = keys.slice(start, rng.randrange(start, len(keys) + 1))
        rng.choice(
            [
                lambda piece=piece: index.add(B, NS, piece, rng.choice(list(Tier))),
                lambda piece=piece: index.remove(B, NS, piece),
                lambda: index.forget(B),
            ]
        )()
        assert index.prefixes(NS, prompt(20))[A] == 20
        assert index.tiers(A, NS, prompt(20)) == TierCounts(dram=20)
        assert index.keys_of(A) == 20
        assert index.keys + index.retired_keys <= 200


class AgainstNaiveModel(RuleBasedStateMachine):
    """
    The index and a dictionary a node, under reports that are closed under prefixes (I2).

    Three prompts share their first blocks, so keys are common to several of them.
    """

    PROMPTS = tuple(PackedKeys(prompt(4).packed + prompt(8, name).packed, 4) for name in (1, 2, 3))

    @initialize()
    def start(self):
        self.index = PrefixIndex(10_000)
        self.model: dict[NodeId, dict[tuple[bytes, bytes], Tier]] = {}

    @rule(
        node=st.sampled_from([A, B, C]),
        ns=st.sampled_from([NS, OTHER_NS]),
        keys=st.sampled_from(PROMPTS),
        blocks=st.integers(1, 12),
        tier=st.sampled_from(Tier),
    )
    def store(self, node, ns, keys, blocks, tier):
        self.index.add(node, ns, keys.slice(0, blocks), tier)
        for key in keys.slice(0, blocks):
            self.model.setdefault(node, {})[ns, key] = tier

    @rule(
        node=st.sampled_from([A, B, C]),
        ns=st.sampled_from([NS, OTHER_NS]),
        keys=st.sampled_from(PROMPTS),
        first=st.integers(0, 11),
        blocks=st.integers(1, 12),
        tier=st.sampled_from(Tier),
    )
    def move(self, *, node, ns, keys, first, blocks, tier):
        held = self.model.get(node, {})
        moved = [key for key in keys.slice(first, first + blocks) if (ns, key) in held]
        self.index.add(node, ns, moved, tier)
        for key in moved:
            held[ns, key] = tier

    @rule(
        node=st.sampled_from([A, B, C]),
        ns=st.sampled_from([NS, OTHER_NS]),
        keys=st.sampled_from(PROMPTS),
        first=st.integers(0, 11),
    )
    def drop_with_descendants(self, node, ns, keys, first):
        dropped = list(keys.slice(first, 12))
        if first < 4:  # in the part that all prompts share
            dropped = [key for each in self.PROMPTS for key in each.slice(first, 12)]
        self.index.remove(node, ns, dropped)
        for key in dropped:
            self.model.get(node, {}).pop((ns, key), None)

    @rule(node=st.sampled_from([A, B, C]))
    def forget(self, node):
        self.index.forget(node)
        self.model.pop(node, None)

    @rule(keys=st.integers(0, 20))
    def sweep(self, keys):
        self.index.sweep(keys)

    @invariant()
    def prefixes_and_tiers_agree_with_a_walk(self):
        for ns in (NS, OTHER_NS):
            for keys in self.PROMPTS:
                expected = {
                    node: length for node in self.model if (length := self.walk(node, ns, keys))
                }
                assert self.index.prefixes(ns, keys) == expected
                for node, length in expected.items():
                    tiers = [self.model[node][ns, key] for key in keys.slice(0, length)]
                    found = self.index.tiers(node, ns, keys.slice(0, length))
                    assert found == TierCounts.count(tiers)

    @invariant()
    def keys_are_counted(self):
        assert self.index.keys == sum(map(len, self.model.values()))
        for node, held in self.model.items():
            assert self.index.keys_of(node) == len(held)

    def walk(self, node, ns, keys):
        length = 0
        while length < len(keys) and (ns, keys[length]) in self.model[node]:
            length += 1
        return length


AgainstNaiveModel.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None
)
TestAgainstNaiveModel = AgainstNaiveModel.TestCase
