"""Tests of hearthkv/demo/tokenizer.py."""

import struct
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.errors import BadRequestError, ModelFileError
from hearthkv.demo.gguf_file import GgufFile
from hearthkv.demo.tokenizer import ChatTokenizer
from tests.gguf_writer import Packed, Value, write_gguf

TEMPLATE = (
    "{% for message in messages %}\n"
    "    {% if message['role'] == 'tool' %}{{ raise_exception('no tools') }}{% endif %}\n"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
START, END = 0, 1


def byte_tokens() -> list[str]:
    """GPT-2's stand-in characters, all 256."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(byte) for byte in printable] + [chr(0x100 + n) for n in range(256 - len(printable))]


MERGES = ["1 2", "h e", "Ġ he", "l l", "Ċ Ċ", "Ã ¤"]
METADATA: dict[str, Value] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": [
        "<|im_start|>",
        "<|im_end|>",
        *byte_tokens(),
        *(merge.replace(" ", "") for merge in MERGES),
    ],
    "tokenizer.ggml.token_type": [3, 3] + [1] * (256 + len(MERGES)),
    "tokenizer.ggml.merges": MERGES,
    "tokenizer.ggml.eos_token_id": END,
    "tokenizer.chat_template": TEMPLATE,
}


@dataclass(frozen=True)
class Said:
    role: str
    content: str


def tokenizer_of(path: Path, metadata: dict[str, Value]) -> ChatTokenizer:
    with GgufFile(write_gguf(path / "model.gguf", metadata)) as file:
        return ChatTokenizer.from_gguf(file)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    return tokenizer_of(tmp_path_factory.mktemp("tokenizer"), METADATA)


@pytest.fixture(scope="module")
def real_tokenizer(real_model_path: Path) -> ChatTokenizer:
    with GgufFile(real_model_path) as file:
        return ChatTokenizer.from_gguf(file)


def test_words_are_merged_and_digits_are_not(tokenizer: ChatTokenizer):
    vocabulary = METADATA["tokenizer.ggml.tokens"]
    assert isinstance(vocabulary, list)
    names = [vocabulary[token] for token in tokenizer.encode("he he 12ll")]
    assert names == ["he", "Ġhe", "Ġ", "1", "2", "ll"]


def test_special_tokens_are_known_by_their_names(tokenizer: ChatTokenizer):
    assert tokenizer.encode("<|im_end|>") == [END]
    assert tokenizer.end_id == END


def test_a_prompt_is_the_chat_and_the_line_that_opens_the_answer(tokenizer: ChatTokenizer):
    chat = [Said("user", "he"), Said("assistant", "ll")]
    closed = tokenizer.encode_chat(chat)
    text = "<|im_start|>user\nhe<|im_end|>\n<|im_start|>assistant\nll<|im_end|>\n"
    assert closed == tokenizer.encode(text)
    assert tokenizer.encode_prompt(chat) == closed + tokenizer.encode("<|im_start|>assistant\n")


def test_special_tokens_have_no_text(tokenizer: ChatTokenizer):
    assert tokenizer.decode([START, *tokenizer.encode("he"), END]) == "he"


@given(text=st.text())
def test_text_comes_back(tokenizer: ChatTokenizer, text: str):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(text=st.text())
def test_a_stream_joined_is_the_text_and_holds_no_half_characters(
    tokenizer: ChatTokenizer, text: str
):
    stream = tokenizer.stream_decoder()
    pieces = [stream.push(token) for token in tokenizer.encode(text)]
    assert "".join(pieces) == text
    assert stream.finish() == ""


def test_a_character_comes_whole_with_its_last_token(tokenizer: ChatTokenizer):
    stream = tokenizer.stream_decoder()
    assert [stream.push(token) for token in tokenizer.encode("€")] == ["", "", "€"]


def test_an_unfinished_character_ends_as_a_replacement_mark(tokenizer: ChatTokenizer):
    cut = tokenizer.encode("he€")[:-1]
    stream = tokenizer.stream_decoder()
    assert "".join(stream.push(token) for token in cut) == "he"
    assert stream.finish() == "\ufffd"
    assert tokenizer.decode(cut) == "he\ufffd"


CONTENTS = st.text(st.sampled_from("he l12\n \t€ä"), max_size=12)


@given(contents=st.lists(CONTENTS, min_size=1, max_size=5), more=CONTENTS)
def test_more_messages_leave_earlier_tokens_as_they_were(
    tokenizer: ChatTokenizer, contents: list[str], more: str
):
    chat = [Said("user", content) for content in contents]
    prompt = tokenizer.encode_prompt(chat)
    longer = tokenizer.encode_prompt([*chat, Said("assistant", more), Said("user", "he")])
    assert longer[: len(prompt)] == prompt


@given(answer=CONTENTS)
def test_an_answer_sent_back_has_the_tokens_it_was_written_with(
    tokenizer: ChatTokenizer, answer: str
):
    chat = [Said("user", "12 he")]
    written = [*tokenizer.encode_prompt(chat), *tokenizer.encode(answer), END]
    back = tokenizer.encode_chat([*chat, Said("assistant", answer)])
    assert back[: len(written)] == written


def test_an_answer_that_encoding_would_merge_otherwise_is_not_found_again(
    tokenizer: ChatTokenizer,
):
    apart = [*tokenizer.encode("h"), *tokenizer.encode("e")]
    assert tokenizer.encode(tokenizer.decode(apart)) != apart


def test_a_chat_that_the_template_refuses_is_a_bad_request(tokenizer: ChatTokenizer):
    with pytest.raises(BadRequestError, match="refuses the messages: no tools"):
        tokenizer.encode_prompt([Said("tool", "he")])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            {"tokenizer.ggml.pre": "llama"}, r"'llama'\), expected \('gpt2', 'smollm'", id="pre"
        ),
        pytest.param(
            {"tokenizer.ggml.merges": ["he"]}, "merge 'he' is not two tokens", id="one-part"
        ),
        pytest.param(
            {"tokenizer.ggml.merges": ["h l"]}, "needs token 'hl'", id="merge-of-no-token"
        ),
        pytest.param({"tokenizer.ggml.tokens": ["日"]}, "1 tokens, but 264 types", id="types"),
        pytest.param(
            {
                "tokenizer.ggml.tokens": ["日"],
                "tokenizer.ggml.token_type": [1],
                "tokenizer.ggml.merges": Packed(9, struct.pack("<IQ", 8, 0)),
            },
            "token '日' has a character that stands for no byte",
            id="no-byte",
        ),
        pytest.param({"tokenizer.chat_template": "{% if %}"}, "can't be compiled", id="template"),
    ],
)
def test_a_broken_tokenizer_is_refused(tmp_path: Path, change: dict[str, Value], expected: str):
    with pytest.raises(ModelFileError, match=expected):
        tokenizer_of(tmp_path, {**METADATA, **change})


@pytest.mark.model
def test_the_real_template_brings_its_own_system_message(real_tokenizer: ChatTokenizer):
    text = real_tokenizer.decode(real_tokenizer.encode_prompt([Said("user", "Hi")]))
    assert text == (
        "system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face\n"
        "user\nHi\nassistant\n"
    )


@pytest.mark.model
@pytest.mark.parametrize("answer", ["Paris.", "\n\n1. Yes\n2. No", "  x = 1\n", "日本 👩‍🚀"])
def test_the_real_tokens_of_a_growing_chat_stay(real_tokenizer: ChatTokenizer, answer: str):
    chat = [Said("system", "Be brief."), Said("user", "Go on.\n")]
    prompt = real_tokenizer.encode_prompt(chat)
    written = [*prompt, *real_tokenizer.encode(answer), real_tokenizer.end_id]
    chat += [Said("assistant", answer), Said("user", "And then?")]
    assert real_tokenizer.encode_prompt(chat)[: len(written)] == written
