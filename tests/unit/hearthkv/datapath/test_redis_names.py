"""Tests of `hearthkv.datapath.redis_names`."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.block_ref import BlockRef
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from hearthkv.datapath.redis_names import RedisNames, epoch_value, server_index, server_seed

NAMES = RedisNames(NodeId("node-a"))
COPIES = st.tuples(
    st.binary(min_size=16, max_size=32),
    st.binary(min_size=1, max_size=32),
    st.integers(0, 2**64 - 1),
)


def test_the_names_are_these():
    assert NAMES.block(b"nnnn", b"kk", 5) == (
        b"hearthkv:node-a:block:\x04\x02nnnnkk\x05\0\0\0\0\0\0\0"
    )
    assert NAMES.reserved(b"nnnn", b"kk", 5) == (
        b"hearthkv:node-a:reserved:\x04\x02nnnnkk\x05\0\0\0\0\0\0\0"
    )
    assert NAMES.epoch == b"hearthkv:node-a:epoch"
    assert NAMES.block(b"n", b"k", 1).startswith(NAMES.block_prefix)
    assert not NAMES.reserved(b"n", b"k", 1).startswith(NAMES.block_prefix)
    assert epoch_value(255) == b"00000000000000ff"


def test_a_ref_has_the_names_of_its_copy():
    ref = BlockRef(b"n" * 16, b"k" * 16, b"", Tier.DRAM, 5, 0, 100)
    assert NAMES.block_of(ref) == NAMES.block(b"n" * 16, b"k" * 16, 5)
    assert NAMES.reserved_of(ref) == NAMES.reserved(b"n" * 16, b"k" * 16, 5)


@given(COPIES, COPIES)
def test_two_copies_share_no_name(one: tuple[bytes, bytes, int], other: tuple[bytes, bytes, int]):
    assert (NAMES.block(*one) == NAMES.block(*other)) == (one == other)


def test_copies_spread_over_servers_and_few_move_to_one_more():
    names = [NAMES.block(b"n" * 16, number.to_bytes(16, "big"), number) for number in range(3000)]
    seeds = [server_seed(f"unix:///run/{number}") for number in range(4)]
    before = [server_index(name, seeds[:3]) for name in names]
    after = [server_index(name, seeds) for name in names]
    assert all(900 < count < 1100 for count in Counter(before).values())
    assert all(new in {old, 3} for old, new in zip(before, after, strict=True))
    assert 650 < after.count(3) < 850


def test_one_server_holds_all():
    assert server_index(b"name", [7]) == 0
