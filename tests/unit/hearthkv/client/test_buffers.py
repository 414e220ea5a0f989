"""Tests of hearthkv/client/buffers.py."""

import numpy as np
import pytest

from hearthkv.client.buffers import block_payloads, writable_bytes
from hearthkv.core.errors import BlockSizeError, LayoutMismatchError


@pytest.mark.parametrize(
    "buffer",
    [bytearray(24), memoryview(bytearray(24)), np.zeros((2, 3), np.float32)],
    ids=["bytearray", "view", "array"],
)
def test_a_buffer_of_any_shape_is_bytes(buffer: object):
    view = writable_bytes(buffer, 24)
    view[23] = 1
    assert (len(view), view.format) == (24, "B")
    assert bytes(memoryview(buffer).cast("B"))[23] == 1


def test_an_empty_buffer_is_fine_where_nothing_is_needed():
    assert len(writable_bytes(np.zeros((0, 4), np.float32), 0)) == 0
    assert len(writable_bytes(bytearray(), 0)) == 0


def test_a_small_buffer_is_refused_with_both_sizes():
    with pytest.raises(LayoutMismatchError, match="buffer is 24 bytes, must be 25 at least"):
        writable_bytes(bytearray(24), 25)


def test_a_read_only_buffer_is_refused():
    with pytest.raises(LayoutMismatchError, match="24 bytes is read-only, must be writable"):
        writable_bytes(bytes(24), 1)


@pytest.mark.parametrize(
    "buffer",
    [np.zeros((4, 4))[:, 1:3], np.zeros((4, 4), order="F")[:, :3]],
    ids=["gaps", "fortran"],
)
def test_a_buffer_with_gaps_is_refused(buffer: object):
    with pytest.raises(LayoutMismatchError, match="must be C-contiguous"):
        writable_bytes(buffer, 1)


def test_what_is_no_buffer_is_refused():
    with pytest.raises(LayoutMismatchError, match="list is no buffer of bytes"):
        writable_bytes([1, 2], 1)


def test_payloads_may_be_read_only():
    views = block_payloads([b"abcd", np.zeros(1, np.float32)], 4)
    assert [bytes(view) for view in views] == [b"abcd", bytes(4)]


def test_a_payload_of_another_size_is_refused_with_both_sizes():
    with pytest.raises(BlockSizeError, match="payload 1 is 3 bytes, must be 4"):
        block_payloads([b"abcd", b"abc"], 4)
