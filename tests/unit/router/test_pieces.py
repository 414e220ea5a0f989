"""router/pieces.py: pieces say what the whole says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.routing import BlockEvent, EventBatch, NodeLoad, SnapshotPart
from hearthkv.core.tier import Tier
from router.pieces import PIECE_KEYS, pieces_of

NS = b"n" * 16


def keys(count: int) -> PackedKeys:
    return PackedKeys(b"".join(index.to_bytes(16) for index in range(count)))


@given(st.integers(0, 3 * PIECE_KEYS + 1), st.booleans(), st.booleans())
def test_pieces_have_all_keys_in_order_and_begin_and_end_where_the_part_does(count, first, last):
    part = SnapshotPart(NS, Tier.SSD, keys(count), first, last)
    pieces = list(pieces_of(part))
    assert all(isinstance(piece, SnapshotPart) for piece in pieces)
    assert b"".join(piece.keys.packed for piece in pieces) == part.keys.packed
    assert all(len(piece.keys) <= PIECE_KEYS for piece in pieces)
    assert {(piece.namespace_id, piece.tier) for piece in pieces} == {(NS, Tier.SSD)}
    assert [piece.is_first for piece in pieces] == [first, *[False] * (len(pieces) - 1)]
    assert [piece.is_last for piece in pieces] == [*[False] * (len(pieces) - 1), last]


@pytest.mark.parametrize(
    "message",
    [
        NodeLoad(),
        EventBatch(1, (BlockEvent(NS, keys(PIECE_KEYS + 1), None),)),
        SnapshotPart(b"", None, keys(0), True, True),
    ],
)
def test_what_is_no_long_part_is_one_piece(message):
    assert list(pieces_of(message)) == [message]
