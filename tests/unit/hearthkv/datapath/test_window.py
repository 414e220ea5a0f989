"""Tests of `hearthkv.datapath.window`."""

import pytest

from hearthkv.datapath.window import BYTES_MAX, REQUESTS_MAX, REQUESTS_MIN, Window


def filled(count: int, size_bytes: int) -> Window:
    window = Window()
    for _ in range(count):
        window.enter(size_bytes)
    return window


def test_two_are_under_way_however_large():
    assert filled(REQUESTS_MIN - 1, BYTES_MAX).has_room(BYTES_MAX)
    assert not filled(REQUESTS_MIN, BYTES_MAX).has_room(1)


def test_bytes_are_bounded():
    quarter = BYTES_MAX // 4
    assert filled(3, quarter).has_room(quarter)
    assert not filled(3, quarter).has_room(quarter + 1)


def test_requests_are_bounded():
    assert filled(REQUESTS_MAX - 1, 1).has_room(1)
    assert not filled(REQUESTS_MAX, 1).has_room(1)


def test_what_leaves_makes_room():
    window = filled(REQUESTS_MAX, 1)
    window.leave(1)
    assert window.has_room(1)
    assert (window.requests, window.bytes) == (REQUESTS_MAX - 1, REQUESTS_MAX - 1)


@pytest.mark.parametrize(
    ("requests", "size_bytes", "is_low"),
    [
        (1, BYTES_MAX, True),  # whatever its size, the server is to have the next
        (2, BYTES_MAX // 4, True),
        (2, BYTES_MAX // 4 + 1, False),
        (REQUESTS_MAX // 2, 1, True),
        (REQUESTS_MAX // 2 + 1, 1, False),
    ],
)
def test_more_is_sent_when_half_of_it_is_free(requests: int, size_bytes: int, is_low: bool):
    assert filled(requests, size_bytes).is_low is is_low
