"""Tests of hearthkv/client/outcome.py."""

import pytest

from hearthkv.client.outcome import MISS_OF_END, MISS_OF_STATUS, MissReason, miss_of
from hearthkv.core.block_io import ReadEnd, WriteStatus
from hearthkv.core.errors import (
    PeerContractError,
    PeerError,
    PeerRefusedError,
    PeerTimeoutError,
    PeerUnreachableError,
)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PeerTimeoutError("late"), MissReason.TIMEOUT),
        (PeerRefusedError("no", status="INTERNAL"), MissReason.REFUSED),
        (PeerContractError("what"), MissReason.BAD_ANSWER),
        (PeerUnreachableError("gone"), MissReason.NODE_UNREACHABLE),
    ],
)
def test_every_failure_of_a_node_is_a_miss_with_a_reason(error: PeerError, reason: MissReason):
    assert miss_of(error) is reason


def test_every_end_of_a_read_has_a_reason():
    assert set(MISS_OF_END) == set(ReadEnd)


def test_every_refusal_of_a_write_has_a_reason():
    assert set(MISS_OF_STATUS) == {status for status in WriteStatus if not status.is_held}
