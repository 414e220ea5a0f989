"""A session of any size has the shape of a real one."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearthkv.demo.script import (
    ROUNDS_FULL,
    ROUNDS_MIN,
    TOKENS_MAX,
    TOKENS_MIN,
    Message,
    message,
    opening,
    prompt_targets,
    step_message,
    steps_for,
)
from hearthkv.demo.session_file import load_texts
from hearthkv.demo.session_texts import Step

TEXTS = load_texts()
BLOCK_SIZE = 16

# An answer of 24 tokens, as `count` below sees it.
ANSWER = message(
    "assistant", "The fault is where a day is compared with the last day of a period. "
)


async def count(messages: Sequence[Message]) -> int:
    """About what the demo's model counts: three characters a token, and the turn's frame."""
    tools = 330
    return tools + 3 + sum(4 + len(each["content"]) // 3 for each in messages)


async def play(tokens: int, rounds: int) -> list[int]:
    """Return the length of each round's prompt."""
    targets = prompt_targets(tokens, rounds)
    history = await opening(TEXTS, targets[0], count)
    prompts = [await count(history)]
    for step, target in zip(steps_for(TEXTS, rounds), targets[1:], strict=True):
        history.append(ANSWER)
        history.append(await step_message(step, history, target, count))
        prompts.append(await count(history))
    return prompts


sizes = st.integers(TOKENS_MIN, TOKENS_MAX)


@settings(deadline=None, max_examples=30)
@given(sizes)
async def test_a_full_session_has_the_size_that_was_asked_for(tokens: int):
    prompts = await play(tokens, ROUNDS_FULL)
    assert 0.95 * tokens <= prompts[-1] <= tokens


@settings(deadline=None, max_examples=30)
@given(sizes)
async def test_about_half_of_a_session_is_its_opening(tokens: int):
    prompts = await play(tokens, ROUNDS_FULL)
    assert 0.40 <= prompts[0] / prompts[-1] <= 0.52


@settings(deadline=None, max_examples=30)
@given(sizes)
async def test_the_last_round_adds_little(tokens: int):
    prompts = await play(tokens, ROUNDS_FULL)
    added = prompts[-1] - prompts[-2]
    assert added <= 0.06 * tokens
    assert added <= 200


@settings(deadline=None, max_examples=30)
@given(sizes)
async def test_nine_tokens_of_ten_were_in_the_prompt_before(tokens: int):
    prompts = await play(tokens, ROUNDS_FULL)
    reusable = sum(before // BLOCK_SIZE * BLOCK_SIZE for before in prompts[:-1])
    assert reusable / sum(prompts[1:]) >= 0.9


@settings(deadline=None, max_examples=30)
@given(sizes, st.integers(ROUNDS_MIN, ROUNDS_FULL))
async def test_prompts_grow_and_stay_within_their_targets(tokens: int, rounds: int):
    prompts = await play(tokens, rounds)
    assert len(prompts) == rounds
    assert all(before < after for before, after in pairwise(prompts))
    assert all(
        prompt <= target
        for prompt, target in zip(prompts, prompt_targets(tokens, rounds), strict=True)
    )


@pytest.mark.parametrize("rounds", range(ROUNDS_MIN, ROUNDS_FULL + 1))
def test_a_session_of_any_length_ends_with_the_tests_that_pass(rounds: int):
    steps = steps_for(TEXTS, rounds)
    assert len(steps) == rounds - 1
    assert steps[-1] == TEXTS.steps[-1]


async def test_a_result_that_is_cut_says_so():
    step = Step("read_file", "a.py", "one\ntwo\nthree")
    history = [message("system", "s")]
    whole = await step_message(step, history, 10_000, count)
    assert whole["content"] == (
        '<tool_response tool="read_file" about="a.py">\none\ntwo\nthree\n</tool_response>'
    )
    cut = await step_message(step, history, 0, count)
    assert cut["content"] == (
        '<tool_response tool="read_file" about="a.py" lines="1-1 of 3">\none\n</tool_response>'
    )


async def test_an_opening_takes_whole_files_before_it_cuts_one():
    texts = replace(TEXTS, open_files=TEXTS.open_files[:2])
    _, task = await opening(texts, 100_000, count)
    assert task["content"].count("</file>") == 2
    assert " of " not in task["content"].split("<file", 1)[1].split("\n", 1)[0]
    _, task = await opening(texts, 0, count)
    assert task["content"].count("</file>") == 1
