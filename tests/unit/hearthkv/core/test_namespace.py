"""Any difference is another namespace, in every process the same."""

import os
import subprocess
import sys
from dataclasses import fields, replace

import pytest

from hearthkv.core.errors import BadNamespaceError
from hearthkv.core.namespace import ModelNamespace, NamespaceSpec, check_namespace_id

MODEL = ModelNamespace(
    model="org/model", revision="abc", dtype="float32", layers=30, kv_heads=3, head_dim=64
)
GOLDEN_PROGRAM = """
from hearthkv.core.namespace import ModelNamespace
print(ModelNamespace(model="org/model", revision="abc", dtype="float32", layers=30, kv_heads=3,
                     head_dim=64, tenant_salt=b"s").spec.namespace_id.hex())
"""


@pytest.mark.parametrize("size_bytes", [16, 32])
def test_an_id_of_allowed_length_is_returned(size_bytes):
    assert check_namespace_id(bytes(size_bytes)) == bytes(size_bytes)


@pytest.mark.parametrize("size_bytes", [0, 15, 33, 10_000])
def test_an_id_of_another_length_is_refused(size_bytes):
    with pytest.raises(
        BadNamespaceError, match=f"namespace_id is {size_bytes} bytes, must be 16 to 32"
    ):
        NamespaceSpec(bytes(size_bytes), 16, 1)


@pytest.mark.parametrize("block_size", [0, -1, 65_537])
def test_a_spec_with_an_impossible_block_size_is_refused(block_size):
    with pytest.raises(BadNamespaceError, match=rf"block_size is {block_size}, must be in 1\.\."):
        NamespaceSpec(bytes(16), block_size, 1)


@pytest.mark.parametrize("block_bytes", [0, -1, 256 * 1024 * 1024 + 1])
def test_a_spec_with_impossible_block_bytes_is_refused(block_bytes):
    with pytest.raises(BadNamespaceError, match=rf"block_bytes is {block_bytes}, must be in 1\.\."):
        NamespaceSpec(bytes(16), 16, block_bytes)


def test_a_block_is_keys_and_values_of_its_tokens_in_all_layers():
    assert MODEL.block_bytes == 2 * 30 * 3 * 64 * 4 * 16
    assert MODEL.spec == NamespaceSpec(MODEL.spec.namespace_id, 16, MODEL.block_bytes)


CHANGES = {
    "model": "org/other",
    "revision": "abd",
    "dtype": "float16",
    "layers": 31,
    "kv_heads": 4,
    "head_dim": 65,
    "block_size": 32,
    "layout": "layer,kv,token,head,dim",
    "byte_order": "big",
    "tensor_parallel_rank": 1,
    "tensor_parallel_size": 3,
    "element_bytes": 2,
    "engine": "another",
    "tenant_salt": b"another",
}


def test_every_field_is_tried_below():
    assert set(CHANGES) == {field.name for field in fields(ModelNamespace)}


@pytest.mark.parametrize("name", CHANGES)
def test_a_difference_in_any_field_is_another_namespace(name):
    base = replace(MODEL, tensor_parallel_size=2)
    other = replace(base, **{name: CHANGES[name]})
    assert other.spec.namespace_id != base.spec.namespace_id


def test_two_tenants_meet_nowhere():
    ids = {replace(MODEL, tenant_salt=salt).spec.namespace_id for salt in (b"", b"a", b"b")}
    assert len(ids) == 3


def test_the_salt_is_never_shown():
    assert "hush" not in repr(replace(MODEL, tenant_salt=b"hush"))


@pytest.mark.parametrize("seed", ["0", "1234"])
def test_the_id_is_the_same_in_every_process(seed):
    answer = subprocess.run(
        [sys.executable, "-c", GOLDEN_PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
        text=True,
    )
    assert answer.stdout.strip() == "271b25d3b4dcafbf866d77bc6645b1eb"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"layers": 0}, "layers is 0, must be >= 1", id="layers"),
        pytest.param(
            {"kv_heads": -3, "layers": -1}, "layers is -1, must be >= 1", id="two-negatives"
        ),
        pytest.param({"head_dim": 0}, "head_dim is 0, must be >= 1", id="head-dim"),
        pytest.param({"block_size": 0}, "block_size is 0, must be >= 1", id="block-size"),
        pytest.param({"element_bytes": 0}, "element_bytes is 0, must be >= 1", id="element-bytes"),
        pytest.param(
            {"tensor_parallel_rank": 1},
            "tensor_parallel_rank is 1, must be >= 0 and under tensor_parallel_size 1",
            id="rank",
        ),
        pytest.param(
            {"tenant_salt": bytes(65)}, "tenant_salt is 65 bytes, must be at most 64", id="salt"
        ),
    ],
)
def test_an_impossible_model_is_refused(change, text):
    with pytest.raises(BadNamespaceError) as caught:
        replace(MODEL, **change)
    assert str(caught.value) == text


def test_a_model_with_blocks_that_servers_refuse_has_no_spec():
    with pytest.raises(BadNamespaceError, match="block_bytes is"):
        _ = replace(MODEL, layers=100_000).spec


def test_texts_of_any_length_and_kind_are_fingerprinted():
    assert len(replace(MODEL, model="m" * 10**6, engine="\ud800").spec.namespace_id) == 16
