"""Held blocks, closed under prefixes: I2."""

import pytest

from cachenode.block import Block, Copy
from cachenode.block_tree import BlockTree, path, subtree_leaves_first
from hearthkv.core.block_io import NamespaceUsage
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import BlockSizeError
from hearthkv.core.namespace import NamespaceSpec
from tests.unit.cachenode.catalog_kit import NAMESPACE_ID, SPEC, key, keys, ref


def grow(tree: BlockTree, *numbers: int, after: int = 0) -> list[Block]:
    blocks = []
    for number in numbers:
        blocks.append(tree.add(SPEC, Copy(ref(number, after), 100)))
        after = number
    return blocks


def test_an_added_block_is_found_below_its_parent():
    tree = BlockTree()
    first, second = grow(tree, 1, 2)
    assert tree.find(NAMESPACE_ID, key(2)) is second
    assert second.parent is first
    assert list(first.children) == [second]
    assert (first.depth, second.depth) == (0, 1)


def test_an_unknown_namespace_holds_nothing():
    tree = BlockTree()
    assert tree.find(NAMESPACE_ID, key(1)) is None
    assert tree.prefix_length(NAMESPACE_ID, keys(1)) == 0
    assert list(tree.prefix(NAMESPACE_ID, keys(1))) == []
    assert list(tree.blocks(NAMESPACE_ID)) == []
    assert tree.spec_of(NAMESPACE_ID) is None
    tree.check(SPEC)


@pytest.mark.parametrize("held", range(6))
def test_i2_the_longest_prefix_is_found_by_bisection(held: int):
    tree = BlockTree()
    grow(tree, 9, *range(1, held + 1))
    wanted = keys(9, 1, 2, 3, 4, 5)
    assert tree.prefix_length(NAMESPACE_ID, wanted) == held + 1
    assert [block.key for block in tree.prefix(NAMESPACE_ID, wanted)] == list(wanted)[: held + 1]


def test_a_prefix_of_no_keys_is_empty():
    tree = BlockTree()
    grow(tree, 1)
    assert tree.prefix_length(NAMESPACE_ID, PackedKeys(b"")) == 0


def test_keys_that_are_no_chain_give_only_blocks_that_are_held():
    tree = BlockTree()
    grow(tree, 1, 2, 3)
    assert [block.key for block in tree.prefix(NAMESPACE_ID, keys(1, 8, 3))] == [key(1)]


def test_a_removed_leaf_is_held_no_more():
    tree = BlockTree()
    first, second = grow(tree, 1, 2)
    tree.remove_leaf(second)
    assert not second.is_held
    assert not first.children
    assert tree.find(NAMESPACE_ID, key(2)) is None
    tree.remove_leaf(first)
    assert tree.namespace_ids() == ()


def test_i2_a_block_with_children_is_never_removed_alone():
    tree = BlockTree()
    first, _ = grow(tree, 1, 2)
    with pytest.raises(AssertionError):
        tree.remove_leaf(first)


def test_a_subtree_has_each_block_once_and_children_before_parents():
    tree = BlockTree()
    grow(tree, 1, 2, 3)
    grow(tree, 4, 5, after=2)
    doomed = subtree_leaves_first(tree.find(NAMESPACE_ID, key(2)))  # type: ignore[arg-type]
    assert sorted(block.key for block in doomed) == [key(n) for n in (2, 3, 4, 5)]
    places = {block: place for place, block in enumerate(doomed)}
    assert all(places[b] < places[b.parent] for b in doomed if b.parent in places)


def test_a_path_leads_from_a_block_to_the_first():
    tree = BlockTree()
    blocks = grow(tree, 1, 2, 3)
    assert list(path(blocks[2])) == blocks[::-1]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (NamespaceSpec(NAMESPACE_ID, 16, 91), "block_bytes is 91, .* have 90"),
        (NamespaceSpec(NAMESPACE_ID, 32, 90), "block_size is 32 tokens, .* have 16"),
    ],
)
def test_a_namespace_keeps_its_sizes_while_anything_is_left_of_it(spec: NamespaceSpec, text: str):
    tree = BlockTree()
    tree.begin_write(SPEC)
    tree.begin_write(SPEC)
    with pytest.raises(BlockSizeError, match=text):
        tree.check(spec)
    tree.end_write(NAMESPACE_ID)
    (block,) = grow(tree, 1)
    tree.end_write(NAMESPACE_ID)
    with pytest.raises(BlockSizeError, match=text):
        tree.check(spec)
    tree.check(SPEC)
    tree.remove_leaf(block)
    tree.check(spec)


def test_namespaces_are_told_with_their_blocks():
    tree = BlockTree()
    blocks = grow(tree, 1, 2)
    assert tree.usages() == (NamespaceUsage(SPEC, 2),)
    assert tree.namespace_ids() == (NAMESPACE_ID,)
    assert tree.spec_of(NAMESPACE_ID) == SPEC
    assert list(tree.blocks(NAMESPACE_ID)) == blocks


def test_i7_the_same_key_in_two_namespaces_is_two_blocks():
    tree = BlockTree()
    grow(tree, 1)
    assert tree.find(b"m" * 16, key(1)) is None
