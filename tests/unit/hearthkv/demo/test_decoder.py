"""Tests of hearthkv/demo/decoder.py."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearthkv.core.errors import BadRequestError, LayoutMismatchError
from hearthkv.demo.decoder import CELLS_PER_THREAD, GRID_ROWS, Decoder
from hearthkv.demo.gguf_file import GgufFile
from hearthkv.demo.kv_cache import KVCache
from hearthkv.demo.model_weights import ModelWeights
from hearthkv.demo.tokenizer import ChatTokenizer
from tests.tiny_model import VOCABULARY, TinyModel

PROMPT = np.random.default_rng(3).integers(0, VOCABULARY, 900).tolist()


@pytest.fixture(scope="module")
def decoder(tiny_weights: ModelWeights) -> Iterator[Decoder]:
    decoder = Decoder(tiny_weights)
    yield decoder
    decoder.close()


@pytest.fixture(scope="module")
def real_decoder(real_weights: ModelWeights) -> Iterator[Decoder]:
    decoder = Decoder(real_weights)
    yield decoder
    decoder.close()


@pytest.fixture(scope="module")
def expected(tiny_model: TinyModel) -> np.ndarray:
    """What the model should say after each token of the prompt."""
    return tiny_model.logits(PROMPT)


def close_to(expected: np.ndarray) -> object:
    return pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("length", [1, 2, 47, 48, 49, 97, 383, 384, 385, 900])
def test_logits_of_a_prompt_are_those_of_plain_attention(
    decoder: Decoder, expected: np.ndarray, length: int
):
    cache = decoder.new_cache(length)
    assert decoder.forward(PROMPT[:length], cache) == close_to(expected[length - 1])
    assert cache.length == length


def test_logits_of_generated_tokens_are_those_of_plain_attention(
    decoder: Decoder, expected: np.ndarray
):
    cache = decoder.new_cache(320)
    decoder.forward(PROMPT[:250], cache)
    for position in range(250, 270):
        assert decoder.step(PROMPT[position], cache) == close_to(expected[position])
    assert decoder.forward(PROMPT[270:300], cache) == close_to(expected[299])


@settings(max_examples=20, deadline=None)
@given(cuts=st.sets(st.integers(1, 55), max_size=6))
def test_a_prompt_may_be_cut_at_any_block(decoder: Decoder, expected: np.ndarray, cuts: set[int]):
    cache = decoder.new_cache(900)
    for start, end in pairwise([0, *sorted(16 * cut for cut in cuts), 900]):
        logits = decoder.forward(PROMPT[start:end], cache)
    assert logits == close_to(expected[899])


def test_a_prefix_from_blocks_serves_as_if_computed(decoder: Decoder):
    cold = decoder.new_cache(900)
    expected = decoder.forward(PROMPT, cold)
    warm = decoder.new_cache(900)
    for index in range(37):
        warm.import_block(index, 16, cold.export_block(index, 16))
    assert decoder.forward(PROMPT[37 * 16 :], warm) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_changes_nothing(
    tiny_weights: ModelWeights, expected: np.ndarray, threads: int
):
    decoder = Decoder(tiny_weights, threads)
    assert decoder.forward(PROMPT, decoder.new_cache(900)) == close_to(expected[899])
    decoder.close()


def test_a_stopped_prompt_keeps_its_finished_chunks_and_can_go_on(
    decoder: Decoder, expected: np.ndarray
):
    answers = iter([False, True])
    cache = decoder.new_cache(900)
    assert decoder.forward(PROMPT, cache, should_stop=lambda: next(answers)) is None
    assert cache.length == 2 * CELLS_PER_THREAD * GRID_ROWS
    rest = decoder.forward(PROMPT[cache.length :], cache, should_stop=lambda: False)
    assert rest == close_to(expected[899])


def test_a_prompt_must_fit_the_cache(decoder: Decoder):
    cache = decoder.new_cache(20)
    with pytest.raises(LayoutMismatchError, match="21 tokens to compute, must be 1 to 20"):
        decoder.forward(PROMPT[:21], cache)
    with pytest.raises(LayoutMismatchError, match="0 tokens to compute"):
        decoder.forward([], cache)
    decoder.forward(PROMPT[:20], cache)
    with pytest.raises(LayoutMismatchError, match="1 tokens to compute, must be 1 to 0"):
        decoder.step(1, cache)


@pytest.mark.parametrize("token", [-1, VOCABULARY])
def test_a_token_outside_the_vocabulary_is_refused(decoder: Decoder, token: int):
    with pytest.raises(BadRequestError, match=f"must be 0 to {VOCABULARY - 1}"):
        decoder.forward([token], decoder.new_cache(20))


def test_a_span_that_fails_does_not_leave_the_others_waiting(decoder: Decoder):
    foreign = KVCache(replace(decoder.shape, head_dim=4), 900)
    with pytest.raises(ValueError, match="broadcast"):
        decoder.forward(PROMPT, foreign)


def greedy(decoder: Decoder, logits: np.ndarray, cache: KVCache, count: int) -> list[int]:
    tokens = []
    for _ in range(count):
        tokens.append(int(logits.argmax()))
        logits = decoder.step(tokens[-1], cache)
    return tokens


@pytest.mark.model
def test_the_real_model_knows_the_capital_of_france(real_decoder: Decoder, real_model_path):
    with GgufFile(real_model_path) as file:
        tokenizer = ChatTokenizer.from_gguf(file)
    prompt = tokenizer.encode(
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nWhat is the capital of France? Answer in one sentence."
        "<|im_end|>\n<|im_start|>assistant\n"
    )
    cache = real_decoder.new_cache(100)
    answer = greedy(real_decoder, real_decoder.forward(prompt, cache), cache, 8)
    assert answer[-1] == tokenizer.end_id
    assert tokenizer.decode(answer) == "The capital of France is Paris."


@pytest.mark.model
def test_the_real_model_says_the_same_with_a_cached_prefix(real_decoder: Decoder, real_model_path):
    with GgufFile(real_model_path) as file:
        tokenizer = ChatTokenizer.from_gguf(file)
    prompt = tokenizer.encode("".join(f"Line {n}: the fire is kept in.\n" for n in range(55)))
    assert 550 < len(prompt) < 800
    cold = real_decoder.new_cache(len(prompt) + 16)
    cold_logits = real_decoder.forward(prompt, cold)
    assert cold_logits is not None
    block_count = len(prompt) // 16 - 5
    warm = real_decoder.new_cache(len(prompt) + 16)
    for index in range(block_count):
        warm.import_block(index, 16, cold.export_block(index, 16))
    warm_logits = real_decoder.forward(prompt[block_count * 16 :], warm)
    assert warm_logits is not None
    assert greedy(real_decoder, cold_logits, cold, 16) == greedy(
        real_decoder, warm_logits, warm, 16
    )
