"""Tests of `cachenode.redis_scripts`; `test_dram_store` runs the scripts on a server."""

from cachenode.redis_scripts import unpacked_scan
from hearthkv.core.block_frame import FRAME_BYTES


def test_names_and_heads_come_apart():
    one, two = b"1" * FRAME_BYTES, b"2" * FRAME_BYTES
    packed = b"\x03abc" + one + b"\x00" + two
    assert list(unpacked_scan(packed)) == [(b"abc", one), (b"", two)]
    assert list(unpacked_scan(b"")) == []
