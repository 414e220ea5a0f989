"""Values of the direct path."""

import pytest

from hearthkv.core.block_io import WriteStart
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.direct_path import RESERVED_BLOCKS_MAX, Attachment, ReserveQuery
from hearthkv.core.errors import BadRequestError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import NodeId

START = WriteStart(NamespaceSpec(b"n" * 16, 16, 100), None)
KEYS = PackedKeys(b"a" * 16 + b"b" * 16, 16)


def test_a_reservation_has_one_checksum_a_key():
    assert ReserveQuery(b"", START, KEYS, b"", (1, 2)).keys == KEYS
    with pytest.raises(BadRequestError, match="has 1 checksums, must have 2"):
        ReserveQuery(b"", START, KEYS, b"", (1,))


def test_a_reservation_has_a_bound():
    keys = PackedKeys(b"k" * 16 * (RESERVED_BLOCKS_MAX + 1), 16)
    with pytest.raises(BadRequestError, match="has 257 blocks, must have 256 at most"):
        ReserveQuery(b"", START, keys, b"", (0,) * len(keys))


def test_the_key_before_the_first_is_as_wide_as_the_others():
    assert ReserveQuery(b"", START, KEYS, b"p" * 16, (1, 2)).parent_key == b"p" * 16
    with pytest.raises(BadRequestError, match="parent_key is 3 bytes, must be empty or 16"):
        ReserveQuery(b"", START, KEYS, b"ppp", (1, 2))


def test_no_secret_is_shown():
    attachment = Attachment(NodeId("a"), 1, ("redis://:secret@127.0.0.1:6379",), "/ssd", False)
    query = ReserveQuery(b"secret", START, KEYS, b"", (1, 2))
    assert "secret" not in repr(attachment) + repr(query)
