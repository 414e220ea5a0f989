"""Which outcomes of a write mean that the block is held."""

import pytest

from hearthkv.core.block_io import WriteStatus


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(WriteStatus.STORED, True, id="stored"),
        pytest.param(WriteStatus.ALREADY_HELD, True, id="already-held"),
        pytest.param(WriteStatus.PARENT_MISSING, False, id="parent-missing"),
        pytest.param(WriteStatus.NO_ROOM, False, id="no-room"),
        pytest.param(WriteStatus.CORRUPT, False, id="corrupt"),
        pytest.param(WriteStatus.UNAVAILABLE, False, id="unavailable"),
    ],
)
def test_a_node_holds_what_it_stored_or_had(status, expected):
    assert status.is_held is expected
