"""Keys are chained, the same everywhere, and hashed once; tokens come in many shapes."""

import os
import subprocess
import sys
from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core import block_key
from hearthkv.core.block_key import (
    KEY_WIDTH,
    KeyChain,
    PackedKeys,
    SampledKeys,
    extend_keys,
    pack_tokens,
    root_key,
)
from hearthkv.core.errors import BadInputError, BadKeysError
from hearthkv.core.namespace import ModelNamespace

NAMESPACE = bytes(range(16))

# Two blocks of four tokens, 0 to 7. Whoever writes the chain in another language must arrive here.
GOLDEN_ROOT = "5a9be5b98e2a498a69e9dc5b7abc860a"
GOLDEN_KEYS = "719cb492d0254455bea7e9e2c643a596711ca81847d1195f22f78def75d4f6c6"

GOLDEN_PROGRAM = """
from hearthkv.core.block_key import KeyChain, root_key
namespace = bytes(range(16))
print(root_key(namespace).hex(), KeyChain(namespace, 4).keys_of(range(10)).packed.hex())
"""

TOKENS = st.lists(st.integers(0, 2**32 - 1), max_size=40)


def keys_from_scratch(tokens: list[int], block_size: int) -> bytes:
    return extend_keys(root_key(NAMESPACE), pack_tokens(tokens), block_size)


class TestPackedKeys:
    def test_it_is_a_sequence_of_its_keys(self):
        keys = PackedKeys(b"aabbcc", 2)
        assert (len(keys), list(keys), keys[2]) == (3, [b"aa", b"bb", b"cc"], b"cc")

    @pytest.mark.parametrize("index", [-1, 3])
    def test_an_index_outside_is_an_error(self, index):
        with pytest.raises(IndexError, match=f"block {index} of 3"):
            PackedKeys(b"aabbcc", 2)[index]

    def test_a_slice_leaves_its_end_out(self):
        assert PackedKeys(b"aabbcc", 2).slice(1, 3) == PackedKeys(b"bbcc", 2)

    @pytest.mark.parametrize("width", [0, 33, -1])
    def test_an_impossible_width_is_refused_even_without_keys(self, width):
        with pytest.raises(BadKeysError, match=rf"key_width is {width}, must be in 1\.\.32"):
            PackedKeys(b"", width)

    def test_a_length_that_the_width_does_not_divide_is_refused(self):
        with pytest.raises(BadKeysError, match=r"keys are 33 bytes, must be a multiple of .* 16"):
            PackedKeys(bytes(33))

    @given(st.integers(1, 32), st.integers(0, 9))
    def test_join_undoes_iteration(self, width, count):
        keys = PackedKeys(bytes(range(count)) * width, width)
        assert PackedKeys.join(list(keys)) == (keys if count else PackedKeys(b""))

    def test_keys_of_two_widths_are_not_joined(self):
        with pytest.raises(BadKeysError, match=r"widths \[1, 2\], must have one"):
            PackedKeys.join([b"a", b"bb"])


class TestPackTokens:
    @given(TOKENS)
    def test_every_kind_of_sequence_gives_the_same_bytes(self, tokens):
        expected = b"".join(token.to_bytes(4, "little") for token in tokens)
        kinds = [tokens, tuple(tokens), array("I", tokens), np.array(tokens, np.uint32)]
        kinds += [np.array(tokens, np.int64), np.array(tokens, np.uint64), [*map(np.int64, tokens)]]
        assert {pack_tokens(kind) for kind in kinds} == {expected}

    @given(st.lists(st.integers(0, 2**15 - 1)))
    def test_narrow_integers_give_the_same_bytes(self, tokens):
        kinds = [np.array(tokens, kind) for kind in (np.int16, np.uint16, np.int32)]
        assert {pack_tokens(kind) for kind in kinds} == {pack_tokens(tokens)}

    def test_a_strided_array_is_read_in_its_order(self):
        assert pack_tokens(np.arange(6, dtype=np.uint32)[::-2]) == pack_tokens([5, 3, 1])

    @pytest.mark.parametrize(
        ("tokens", "text"),
        [
            ([7, -1], "token 1 is -1, must be an int in 0..2**32-1"),
            ([2**32], "token 0 is 4294967296, must be"),
            ([1.0], "token 0 is 1.0, must be"),
            ([[1]], r"token 0 is [1], must be"),
            (np.array([3, -1], np.int32), "token 1 is -1, must be"),
            (np.array([-1]), "token 0 is -1, must be"),
            (np.array([2**40]), "token 0 is 1099511627776, must be"),
            ("ab", "token 0 is 'a', must be"),
            ("", "tokens are of type str, must be a sequence of ints"),
            (None, "tokens are of type NoneType, must be"),
            (b"1234", "items of format 'B', must be uint32"),
            (bytearray(4), "items of format 'B', must be uint32"),
            (np.array([True]), "items of format '?', must be uint32"),
            (np.array([1.0]), "items of format 'd', must be uint32"),
            (np.array([1], ">u4"), "items of format '>I', must be uint32"),
            (np.array([[1, 2]]), "has 2 dimensions, must have 1"),
            (np.int64(1), "has 0 dimensions, must have 1"),
            (np.array(["2020"], "M8[Y]"), "token 0 is np.datetime64('2020'), must be"),
        ],
    )
    def test_what_is_not_a_token_is_refused(self, tokens, text):
        with pytest.raises(BadInputError) as caught:
            pack_tokens(tokens)
        assert text in str(caught.value)

    def test_a_long_value_is_cut_short_in_the_error(self):
        with pytest.raises(BadInputError) as caught:
            pack_tokens(["x" * 10_000])
        assert len(str(caught.value)) < 120

    def test_the_other_byte_order_is_swapped(self):
        assert block_key._swapped(b"\x00\x00\x01\x02") == b"\x02\x01\x00\x00"


class TestExtendKeys:
    def test_a_partial_block_has_no_key(self):
        keys = [keys_from_scratch(list(range(count)), 4) for count in (3, 4, 7, 8)]
        assert [len(packed) // KEY_WIDTH for packed in keys] == [0, 1, 1, 2]

    @given(TOKENS, TOKENS, st.integers(1, 5))
    def test_equal_prefixes_have_equal_keys_and_no_key_comes_back(self, left, right, block_size):
        one, other = (list(PackedKeys(keys_from_scratch(t, block_size))) for t in (left, right))
        for index, (mine, theirs) in enumerate(zip(one, other, strict=False)):
            stop = (index + 1) * block_size
            assert (mine == theirs) == (left[:stop] == right[:stop])
        assert len(set(one)) == len(one)


class TestGoldenVectors:
    @pytest.mark.parametrize("seed", ["0", "1234"])
    def test_keys_are_the_same_in_every_process(self, seed):
        answer = subprocess.run(
            [sys.executable, "-c", GOLDEN_PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        )
        assert answer.stdout.split() == [GOLDEN_ROOT, GOLDEN_KEYS]


class TestTenants:
    MODEL = ModelNamespace(
        model="m", revision="1", dtype="float32", layers=1, kv_heads=1, head_dim=8
    )

    @pytest.mark.parametrize(
        "change",
        [
            {"tenant_salt": b"another"},
            {"model": "n"},
            {"dtype": "float16"},
            {"layout": "layer,kv,token,head,dim"},
            {"tensor_parallel_size": 2},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_another_namespace_shares_no_key(self, change):
        fields = {name: getattr(self.MODEL, name) for name in self.MODEL.__slots__}
        other = ModelNamespace(**fields | change)
        mine, theirs = (
            set(KeyChain(namespace.spec.namespace_id, 16).keys_of(range(64)))
            for namespace in (self.MODEL, other)
        )
        assert mine.isdisjoint(theirs)

    def test_the_root_is_no_block_of_its_namespace(self):
        assert root_key(NAMESPACE) not in set(KeyChain(NAMESPACE, 1).keys_of(range(9)))


class TestKeyChain:
    @given(st.lists(TOKENS, max_size=6), st.integers(1, 5))
    def test_any_sequence_of_prompts_gives_the_keys_of_each_from_scratch(self, prompts, size):
        chain = KeyChain(NAMESPACE, size)
        for prompt in prompts:
            assert chain.keys_of(prompt).packed == keys_from_scratch(prompt, size)

    @given(st.data(), st.integers(1, 5))
    def test_any_sequence_of_edits_gives_the_keys_from_scratch(self, data, size):
        chain, prompt = KeyChain(NAMESPACE, size), data.draw(TOKENS)
        for _ in range(data.draw(st.integers(0, 6))):
            cut = data.draw(st.integers(0, len(prompt)))
            prompt = prompt[:cut] + data.draw(TOKENS)
            assert chain.keys_of(prompt).packed == keys_from_scratch(prompt, size)

    @given(TOKENS, st.lists(TOKENS, max_size=4), st.integers(1, 5))
    def test_extending_is_a_longer_prompt(self, prompt, parts, size):
        chain = KeyChain(NAMESPACE, size)
        chain.keys_of(prompt)
        for part in parts:
            prompt = prompt + part
            assert chain.extend(part).packed == keys_from_scratch(prompt, size)

    def test_only_what_is_new_is_hashed(self):
        chain = KeyChain(NAMESPACE, 16)
        chain.keys_of(range(160))
        chain.keys_of(range(160))
        chain.keys_of(range(176))
        chain.extend(range(32))
        assert chain.hashed_blocks == 10 + 1 + 2

    def test_what_follows_a_change_is_hashed_again(self):
        chain = KeyChain(NAMESPACE, 16)
        chain.keys_of(range(160))
        chain.keys_of([*range(100), 0, *range(101, 160)])
        assert chain.hashed_blocks == 10 + 4
        assert chain.settled_blocks == 6

    def test_a_bad_token_leaves_the_chain_as_it_was(self):
        chain = KeyChain(NAMESPACE, 2)
        before = chain.keys_of([1, 2])
        for ask in (chain.keys_of, chain.extend):
            with pytest.raises(BadInputError):
                ask([-1])
        assert chain.extend([]) == before

    def test_a_block_of_no_tokens_is_refused(self):
        with pytest.raises(BadInputError, match="block_size is 0, must be >= 1"):
            KeyChain(NAMESPACE, 0)


def test_samples_of_a_part_of_a_prompt_are_those_in_it():
    samples = SampledKeys(PackedKeys(bytes(range(64))), (4, 8, 9, 12))
    assert samples.blocks == 12
    assert samples.up_to(8) == SampledKeys(PackedKeys(bytes(range(32))), (4, 8))
    assert samples.up_to(3).blocks == 0
    assert SampledKeys.all_of(PackedKeys(bytes(48))).up_to(2).blocks == 2
