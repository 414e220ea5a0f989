"""What a pull may ask for."""

import pytest

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import BadRequestError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.pulls import PullQuery

NAMESPACE = b"n" * 16
KEYS = PackedKeys(b"abc", 1)


def test_a_prefix_is_named_by_its_keys_or_its_tip():
    assert PullQuery(NAMESPACE, KEYS, b"c").keys == KEYS
    assert not PullQuery(NAMESPACE, PackedKeys(b""), b"c").keys


def test_a_pull_of_nothing_is_refused():
    with pytest.raises(BadRequestError, match="pull names no block, must have keys or a tip_key"):
        PullQuery(NAMESPACE, PackedKeys(b""), b"")


def test_a_tip_must_be_the_last_of_the_keys():
    with pytest.raises(BadRequestError, match="tip_key is not the last of keys"):
        PullQuery(NAMESPACE, KEYS, b"b")


def test_sizes_of_another_namespace_are_refused():
    spec = NamespaceSpec(b"m" * 16, 16, 100)
    with pytest.raises(BadRequestError, match="namespace has another id than namespace_id"):
        PullQuery(NAMESPACE, KEYS, b"c", spec=spec)
