"""The checksum sees any damage, and any mix-up of blocks."""

import xxhash
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.checksum import block_checksum

NAMESPACE, KEY = b"n" * 16, b"k" * 16


def test_it_is_the_seeded_xxh3_that_the_contract_names():
    seed = xxhash.xxh3_64_intdigest(NAMESPACE + KEY)
    assert block_checksum(NAMESPACE, KEY, b"payload") == xxhash.xxh3_64_intdigest(b"payload", seed)
    assert block_checksum(NAMESPACE, KEY, b"payload") == 6025648042089520140


@given(st.binary(min_size=1, max_size=64), st.data())
def test_any_flipped_bit_is_seen(payload, data):
    bit = data.draw(st.integers(0, len(payload) * 8 - 1))
    damaged = bytearray(payload)
    damaged[bit // 8] ^= 1 << bit % 8
    assert block_checksum(NAMESPACE, KEY, bytes(damaged)) != block_checksum(NAMESPACE, KEY, payload)


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_the_same_bytes_under_another_name_differ(namespace_id, key):
    if (namespace_id, key) != (NAMESPACE, KEY):
        assert block_checksum(namespace_id, key, b"x") != block_checksum(NAMESPACE, KEY, b"x")


def test_a_view_is_as_good_as_bytes():
    payload = memoryview(bytearray(b"abcdef"))[1:5]
    assert block_checksum(NAMESPACE, KEY, payload) == block_checksum(NAMESPACE, KEY, b"bcde")
