"""Tests of `cachenode.block_assembly`."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachenode.block_assembly import BlockAssembly
from hearthkv.core.block_io import BlockChunk, BlockHeader
from hearthkv.core.errors import BadRequestError, BlockSizeError
from hearthkv.core.namespace import NamespaceSpec

SPEC = NamespaceSpec(b"n" * 16, 16, 8)
HEADER = BlockHeader(b"k" * 16, b"", 8, 0)
OTHER = BlockHeader(b"K" * 16, b"k" * 16, 8, 0)


def new_assembly() -> BlockAssembly:
    assembly = BlockAssembly(SPEC)
    assembly.memory = memoryview(bytearray(8))
    return assembly


@given(st.lists(st.integers(1, 7), max_size=7, unique=True))
def test_chunks_of_any_length_make_the_block(cuts: list[int]):
    assembly = new_assembly()
    edges = [0, *sorted(cuts), 8]
    chunks = [
        BlockChunk(HEADER if start == 0 else None, b"01234567"[start:end])
        for start, end in pairwise(edges)
    ]
    *before, last = [assembly.take(chunk) for chunk in chunks]
    assert before == [None] * (len(chunks) - 1)
    assert last == (HEADER, b"01234567")
    assembly.finish()


def test_a_block_in_one_piece_is_not_copied():
    payload = b"01234567"
    block = new_assembly().take(BlockChunk(HEADER, payload))
    assert block is not None
    assert block[1] is payload


def test_blocks_follow_one_another():
    assembly = new_assembly()
    assert assembly.take(BlockChunk(HEADER, b"")) is None
    assert assembly.take(BlockChunk(None, b"01234567")) == (HEADER, b"01234567")
    assert assembly.take(BlockChunk(OTHER, b"89")) is None
    assert assembly.take(BlockChunk(None, b"abcdef")) == (OTHER, b"89abcdef")


def test_a_block_in_parts_is_put_together_in_the_memory_that_was_given():
    assembly = new_assembly()
    memory = assembly.memory
    assert assembly.wants_memory(BlockChunk(HEADER, b"0123"))
    assert not assembly.wants_memory(BlockChunk(None, b"0123"))
    assert not assembly.wants_memory(BlockChunk(HEADER, b"01234567"))
    assembly.take(BlockChunk(HEADER, b"0123"))
    assert assembly.take(BlockChunk(None, b"4567")) == (HEADER, memory)
    assert memory == b"01234567"


def test_a_block_of_another_size_is_refused_by_both_sizes():
    header = BlockHeader(b"k" * 16, b"", 9, 0)
    with pytest.raises(BlockSizeError, match=r"block is 9 bytes, .* are 8 bytes"):
        new_assembly().take(BlockChunk(header, b""))


def test_more_bytes_than_the_header_says_are_refused():
    assembly = new_assembly()
    assembly.take(BlockChunk(HEADER, b"0123"))
    with pytest.raises(BlockSizeError, match="payload is 9 bytes or more, header says 8"):
        assembly.take(BlockChunk(None, b"45678"))


def test_a_header_before_the_last_block_is_whole_is_refused():
    assembly = new_assembly()
    assembly.take(BlockChunk(HEADER, b"0123"))
    with pytest.raises(BlockSizeError, match="payload is 4 bytes, header says 8"):
        assembly.take(BlockChunk(OTHER, b""))


def test_an_end_before_the_last_block_is_whole_is_refused():
    assembly = new_assembly()
    assembly.take(BlockChunk(HEADER, b"0123"))
    with pytest.raises(BlockSizeError, match="payload is 4 bytes, header says 8"):
        assembly.finish()


def test_bytes_without_a_header_are_refused():
    with pytest.raises(BadRequestError, match="no header"):
        new_assembly().take(BlockChunk(None, b"0"))
