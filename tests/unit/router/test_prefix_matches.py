"""router/prefix_matches.py: who holds how much of one prompt."""

import pytest

from hearthkv.core.session_id import NodeId
from router.prefix_matches import NodeBits, PrefixGroup, PrefixMatches

A, B, C, D = (NodeId(name) for name in "abcd")


@pytest.fixture
def nodes() -> NodeBits:
    bits = NodeBits()
    for number, node_id in enumerate((C, A, B, D)):
        bits.name(1 << number, node_id)
    return bits


@pytest.fixture
def matches(nodes: NodeBits) -> PrefixMatches:
    return PrefixMatches(
        nodes, iter((PrefixGroup(20, 0b001, nodes), PrefixGroup(10, 0b110, nodes)))
    )


def test_nodes_come_longest_first_and_then_by_name(matches: PrefixMatches):
    assert list(matches.items()) == [(C, 20), (A, 10), (B, 10)]
    assert len(matches) == 3
    assert [len(group) for group in matches.groups] == [1, 2]


def test_a_node_that_holds_nothing_or_is_not_known_is_left_out(matches: PrefixMatches):
    assert matches.get(D) == 0
    assert matches.get(NodeId("e"), 7) == 7
    assert D not in matches
    with pytest.raises(KeyError):
        matches[D]


def test_a_node_that_was_forgotten_has_no_bit(nodes: NodeBits):
    assert nodes.forget(A) == 0b010
    assert nodes.forget(A) == 0
    assert nodes.mask == 0b1101
    assert list(nodes.nodes_of(nodes.mask)) == [B, C, D]
    assert len(nodes) == 3


def test_nodes_come_by_name_be_they_few_or_many():
    bits = NodeBits()
    names = [NodeId(f"n{number * 37 % 100:02}") for number in range(100)]
    for number, node_id in enumerate(names):
        bits.name(1 << number, node_id)
    for mask in (0, 0b1011, (1 << 100) - 1, ((1 << 100) - 1) // 3):
        some = [node_id for number, node_id in enumerate(names) if mask >> number & 1]
        assert list(bits.nodes_of(mask)) == sorted(some)


def test_groups_are_searched_when_they_are_asked_for(nodes: NodeBits):
    searched: list[int] = []

    def search():
        for blocks, mask in ((20, 0b001), (10, 0b010), (5, 0b100)):
            searched.append(blocks)
            yield PrefixGroup(blocks, mask, nodes)

    matches = PrefixMatches(nodes, search())
    assert matches.get(C) == 20
    assert next(iter(matches)) == C
    assert searched == [20]
    assert matches[A] == 10
    assert searched == [20, 10]
    assert len(matches) == 3
    assert list(matches) == [C, A, B]
    assert searched == [20, 10, 5]
