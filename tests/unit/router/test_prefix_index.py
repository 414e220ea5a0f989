"""router/prefix_index.py: who holds which prefix, against a naive model."""

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hearthkv.core.block_key import PackedKeys, SampledKeys
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


def prefixes(index: PrefixIndex, namespace_id: bytes, keys: PackedKeys) -> dict[NodeId, int]:
    return dict(index.look_up(namespace_id, SampledKeys.all_of(keys)).prefixes())


def tiers(index: PrefixIndex, node_id: NodeId, namespace_id: bytes, keys: PackedKeys) -> TierCounts:
    return index.look_up(namespace_id, SampledKeys.all_of(keys)).exact_tiers(node_id, len(keys))


def test_an_empty_index_matches_nothing():
    index = PrefixIndex(10)
    assert prefixes(index, NS, prompt(5)) == {}
    assert tiers(index, A, NS, prompt(0)) == TierCounts()
    assert (index.keys, index.keys_of(A), index.missing_keys_of(A)) == (0, 0, 0)


def test_removed_blocks_shorten_the_match_and_unknown_ones_are_no_matter():
    index = index_of((A, prompt(10), Tier.DRAM))
    index.remove(A, NS, prompt(12).slice(4, 12))
    index.remove(A, OTHER_NS, prompt(10))
    index.remove(B, NS, prompt(10))
    assert prefixes(index, NS, prompt(10)) == {A: 4}
    assert index.keys == index.keys_of(A) == 4


def test_a_forgotten_node_matches_nothing_at_once_and_its_memory_is_freed_in_pieces():
    index = index_of((A, prompt(10), Tier.DRAM), (B, prompt(10), Tier.DRAM))
    index.forget(A)
    index.forget(A)
    assert prefixes(index, NS, prompt(10)) == {B: 10}
    assert (index.keys, index.keys_of(A), index.retired_keys) == (10, 0, 10)
    assert [index.sweep(6), index.sweep(3), index.sweep(3)] == [5, 2, 0]
    assert prefixes(index, NS, prompt(10)) == {B: 10}


def test_a_node_that_comes_back_before_its_memory_is_freed_starts_with_nothing():
    index = index_of((A, prompt(10), Tier.DRAM))
    index.forget(A)
    index.add(A, NS, prompt(3), Tier.SSD)
    assert prefixes(index, NS, prompt(10)) == {A: 3}
    index.sweep(100)
    assert prefixes(index, NS, prompt(10)) == {A: 3}
    assert tiers(index, A, NS, prompt(3)) == TierCounts(ssd=3)


def test_what_is_freed_leaves_nothing_behind():
    index = index_of((A, prompt(10), Tier.DRAM), (B, prompt(5), Tier.SSD))
    for node_id in (A, B):
        index.forget(node_id)
    index.sweep(100)
    assert index._holders.tables == {}
    assert len(index._holders.states) == 1
    index.add(C, NS, prompt(1), Tier.SSD)
    assert index._nodes.bits == {C: 1}


def test_a_full_index_gives_a_node_over_its_share_nothing_more():
    index = index_of((A, prompt(10), Tier.DRAM), keys_max=10)
    index.add(A, NS, prompt(3, name=1), Tier.DRAM)
    assert prefixes(index, NS, prompt(10)) == {A: 10}
    assert prefixes(index, NS, prompt(3, name=1)) == {}
    assert (index.keys, index.missing_keys_of(A)) == (10, 3)


def test_a_full_index_still_takes_moves_between_tiers():
    index = index_of((A, prompt(10), Tier.DRAM), keys_max=10)
    index.add(A, NS, prompt(10), Tier.SSD)
    assert tiers(index, A, NS, prompt(10)) == TierCounts(ssd=10)


def test_a_flood_of_one_node_does_not_push_another_below_its_share():
    index = PrefixIndex(100)
    index.add(A, NS, prompt(1000, name=1), Tier.DRAM)
    index.add(B, NS, prompt(30), Tier.DRAM)
    index.add(A, NS, prompt(1000, name=2), Tier.DRAM)
    assert prefixes(index, NS, prompt(30)) == {B: 30}
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
    assert prefixes(index, NS, prompt(10, name=2)) == {C: 10}
    assert prefixes(index, NS, prompt(30, name=1)) == {B: 30}
    # Room is made by half of what A has beyond its share, and its oldest keys, the roots, stay.
    assert prefixes(index, NS, prompt(60)) == {A: 45}
    assert index.missing_keys_of(A) == 15


def test_room_is_made_from_forgotten_nodes_first():
    index = index_of((A, prompt(10), Tier.DRAM), keys_max=10)
    index.forget(A)
    index.add(B, NS, prompt(10, name=1), Tier.DRAM)
    assert prefixes(index, NS, prompt(10, name=1)) == {B: 10}
    assert (index.keys, index.retired_keys) == (10, 0)


def test_an_index_smaller_than_the_number_of_nodes_stays_bounded():
    index = PrefixIndex(1)
    for node_id in (A, B, C):
        index.add(node_id, NS, prompt(2), Tier.DRAM)
    assert index.keys == 1
    assert prefixes(index, NS, prompt(2)) == {A: 1}


def test_room_is_looked_for_within_bounds(monkeypatch):
    monkeypatch.setattr(prefix_index, "_ROOM_STEPS", 10)
    index = index_of((A, prompt(50), Tier.DRAM), (B, prompt(50), Tier.DRAM), keys_max=150)
    index.add(A, NS, prompt(50, name=1), Tier.DRAM)  # the newest blocks are all of A
    index.forget(B)
    index.add(C, NS, prompt(60, name=2), Tier.DRAM)
    # B is over, but its blocks are found piece by piece; A is over its share and loses meanwhile.
    assert index.keys_of(C) + index.missing_keys_of(C) == 60
    assert index.keys_of(A) >= 75
    assert index.keys + index.retired_keys <= 150


def test_a_key_stays_out_while_no_room_is_found_for_it(monkeypatch):
    monkeypatch.setattr(prefix_index, "_ROOM_STEPS", 2)
    index = index_of((A, prompt(4), Tier.DRAM), (B, prompt(2, name=1), Tier.SSD), keys_max=6)
    index.add(C, NS, prompt(1, name=2), Tier.DRAM)
    assert (index.keys_of(C), index.missing_keys_of(C)) == (0, 1)
    index.add(C, NS, prompt(1, name=2), Tier.DRAM)
    assert (index.keys_of(A), index.keys_of(B), index.keys_of(C)) == (3, 2, 1)
    assert index.missing_keys_of(A) == 1


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
        assert prefixes(index, NS, prompt(20))[A] == 20
        assert tiers(index, A, NS, prompt(20)) == TierCounts(dram=20)
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
        self.index.add(node, ns, PackedKeys.join(moved), tier)
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
        self.index.remove(node, ns, PackedKeys.join(dropped))
        for key in dropped:
            self.model.get(node, {}).pop((ns, key), None)

    @rule(node=st.sampled_from([A, B, C]))
    def forget(self, node):
        self.index.forget(node)
        self.model.pop(node, None)

    @rule(blocks=st.integers(0, 20))
    def sweep(self, blocks):
        self.index.sweep(blocks)

    @invariant()
    def prefixes_and_tiers_agree_with_a_walk(self):
        for ns in (NS, OTHER_NS):
            for keys in self.PROMPTS:
                expected = {
                    node: length for node in self.model if (length := self.walk(node, ns, keys))
                }
                assert prefixes(self.index, ns, keys) == expected
                for node, length in expected.items():
                    held = [self.model[node][ns, key] for key in keys.slice(0, length)]
                    found = tiers(self.index, node, ns, keys.slice(0, length))
                    assert found == TierCounts.count(held)

    @rule(
        ns=st.sampled_from([NS, OTHER_NS]),
        keys=st.sampled_from(PROMPTS),
        positions=st.sets(st.integers(1, 12)).map(sorted),
    )
    def ask_by_some_of_the_keys(self, ns, keys, positions):
        samples = SampledKeys(PackedKeys.join([keys[at - 1] for at in positions]), positions)
        if not positions:
            samples = SampledKeys(PackedKeys(b"", 4), ())
        found = self.index.look_up(ns, samples).prefixes()
        for node in (A, B, C):
            length = self.walk(node, ns, keys)
            assert found.get(node, 0) == max((at for at in positions if at <= length), default=0)

    @invariant()
    def keys_are_counted(self):
        assert self.index.keys == sum(map(len, self.model.values()))
        for node, held in self.model.items():
            assert self.index.keys_of(node) == len(held)

    def walk(self, node, ns, keys):
        length = 0
        while length < len(keys) and (ns, keys[length]) in self.model.get(node, {}):
            length += 1
        return length


AgainstNaiveModel.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None
)
TestAgainstNaiveModel = AgainstNaiveModel.TestCase
