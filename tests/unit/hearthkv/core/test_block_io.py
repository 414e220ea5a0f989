"""Which outcomes of a write mean that the block is held, and how long a pin may last."""

import math

import pytest

from hearthkv.core.block_io import PIN_TTL_S_MAX, PinQuery, WriteStatus
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import BadRequestError


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


@pytest.mark.parametrize("ttl_s", [0.0, -1.0, PIN_TTL_S_MAX + 1, math.inf, math.nan])
def test_a_pin_has_an_end_within_the_hour(ttl_s: float):
    with pytest.raises(BadRequestError, match=r"ttl is .* s, must be over 0 and at most 3600 s"):
        PinQuery(b"n" * 16, PackedKeys(b""), ttl_s)
    assert PinQuery(b"n" * 16, PackedKeys(b""), PIN_TTL_S_MAX).ttl_s == 3600
