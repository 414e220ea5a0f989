"""The texts that come with the package are all there."""

from hearthkv.demo.script import ROUNDS_FULL
from hearthkv.demo.session_file import load_texts


def test_there_is_a_result_between_each_two_rounds():
    assert len(load_texts().steps) == ROUNDS_FULL - 1


def test_no_text_is_empty_and_none_comes_twice():
    texts = load_texts()
    all_texts = [texts.system, texts.task, *texts.follow_ups]
    all_texts += [file.text for file in texts.open_files]
    all_texts += [step.text for step in texts.steps]
    assert all(text.strip() for text in all_texts)
    assert len(set(all_texts)) == len(all_texts)


def test_each_tool_that_is_used_is_described():
    texts = load_texts()
    described = {tool["function"]["name"] for tool in texts.tools}
    assert described >= {step.tool for step in texts.steps}


def test_the_last_step_is_short():
    assert len(load_texts().steps[-1].text) < 200
