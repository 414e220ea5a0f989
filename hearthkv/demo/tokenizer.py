"""Turn chats and text into tokens and back, as the model file says. Reads that file only."""

import codecs
import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Protocol, Self

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from hearthkv.core.errors import BadRequestError, ModelFileError
from hearthkv.demo.gguf_file import GgufFile

_CONTROL_TOKEN = 3  # in tokenizer.ggml.token_type: special tokens such as <|im_end|>

# The line that opens a message, up to where its content begins.
_OPENING_LINE = re.compile(r"(<\|im_start\|>[^\n]*\n)")


class Message(Protocol):
    """What the chat template reads of a message."""

    @property
    @abstractmethod
    def role(self) -> str:
        """Who speaks: system, user or assistant."""

    @property
    @abstractmethod
    def content(self) -> str:
        """What is said."""


class ChatTokenizer:
    """
    The tokenizer and the chat template of one model.

    The tokens of a chat are a prefix of the tokens of the same chat with more messages, and
    so are those of a prompt whose answer was added to it: each content is tokenised apart
    from the line that opens its message, so nothing that follows changes what precedes.

    This can't hold for the model's own answer where its text isn't tokenised as the model
    wrote it: when it chose other tokens than byte-pair encoding makes of their text, when
    the answer was cut within a character, or when it wrote special tokens, which `decode`
    leaves out. Then the answer's tokens differ from the first such place on.
    """

    def __init__(
        self,
        *,
        tokens: Sequence[str],
        merges: Sequence[tuple[str, str]],
        special_ids: Sequence[int],
        end_id: int,
        chat_template: str,
    ) -> None:
        """
        Build a byte-level BPE tokenizer.

        Raises:
            ModelFileError: If these parts don't make a tokenizer and a chat template.
        """
        self.end_id = end_id
        """The token with which the model ends its answer."""
        special = frozenset(special_ids)
        self._tokenizer = _byte_level_bpe(tokens, merges, special_ids)
        self._token_bytes = [
            b"" if index in special else _bytes_of(token) for index, token in enumerate(tokens)
        ]
        self._template = _compile(chat_template)

    @classmethod
    def from_gguf(cls, file: GgufFile) -> Self:
        """
        Build the tokenizer that a model file describes.

        Raises:
            ModelFileError: If it describes none, or one of another kind.
        """
        kind = file.text("tokenizer.ggml.model"), file.text("tokenizer.ggml.pre")
        if kind != ("gpt2", "smollm"):
            raise ModelFileError(f"tokenizer is {kind}, expected ('gpt2', 'smollm')")
        tokens = file.texts("tokenizer.ggml.tokens")
        types = file.integers("tokenizer.ggml.token_type")
        if len(types) != len(tokens):
            raise ModelFileError(f"tokenizer has {len(tokens)} tokens, but {len(types)} types")
        return cls(
            tokens=tokens,
            merges=[_merge(line) for line in file.texts("tokenizer.ggml.merges")],
            special_ids=[index for index, kind in enumerate(types) if kind == _CONTROL_TOKEN],
            end_id=file.integer("tokenizer.ggml.eos_token_id"),
            chat_template=file.text("tokenizer.chat_template"),
        )

    def encode(self, text: str) -> list[int]:
        """Return the tokens of `text`. Special tokens are recognised by their names."""
        tokens: list[int] = []
        for piece in _OPENING_LINE.split(text):
            if piece:
                tokens += self._tokenizer.encode(piece, add_special_tokens=False).ids
        return tokens

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """
        Return the tokens of a chat, all messages closed.

        Raises:
            BadRequestError: If the template refuses the messages.
        """
        return self.encode(self._render(messages, opens_answer=False))

    def encode_prompt(self, messages: Sequence[Message]) -> list[int]:
        """
        Return the tokens of a chat, then of the line that opens the model's answer.

        Raises:
            BadRequestError: If the template refuses the messages.
        """
        return self.encode(self._render(messages, opens_answer=True))

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of `tokens`, special ones left out, bad UTF-8 replaced."""
        return b"".join(self._token_bytes[token] for token in tokens).decode(errors="replace")

    def stream_decoder(self) -> "StreamDecoder":
        """Return a decoder for the tokens of one answer, as they come."""
        return StreamDecoder(self._token_bytes)

    def _render(self, messages: Sequence[Message], *, opens_answer: bool) -> str:
        try:
            return self._template.render(
                messages=[{"role": each.role, "content": each.content} for each in messages],
                add_generation_prompt=opens_answer,
            )
        except jinja2.TemplateError as error:
            raise BadRequestError(f"the chat template refuses the messages: {error}") from error


class StreamDecoder:
    """
    Decode one answer token by token.

    What `push` and `finish` return, joined, is what `ChatTokenizer.decode` returns for all
    tokens at once; no part of it holds half a character.
    """

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._token_bytes = token_bytes
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """Return the text that `token` completes; often empty within a long character."""
        return self._utf8.decode(self._token_bytes[token])

    def finish(self) -> str:
        """Return what is left: a replacement mark if the last character is unfinished."""
        return self._utf8.decode(b"", final=True)


def _byte_level_bpe(
    tokens: Sequence[str], merges: Sequence[tuple[str, str]], special_ids: Sequence[int]
) -> Tokenizer:
    vocabulary = {token: index for index, token in enumerate(tokens)}
    for first, second in merges:
        for token in (first, second, first + second):
            if token not in vocabulary:
                raise ModelFileError(f"merge of {first!r} and {second!r} needs token {token!r}")
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=list(merges)))
    # What "smollm" stands for: each digit by itself, then GPT-2's split into words.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.add_special_tokens(
        [AddedToken(tokens[index], normalized=False, special=True) for index in special_ids]
    )
    return tokenizer


def _merge(line: str) -> tuple[str, str]:
    first, separator, second = line.partition(" ")
    if not (first and separator and second):
        raise ModelFileError(f"merge {line!r} is not two tokens with a space between")
    return first, second


def _byte_characters() -> dict[str, int]:
    """Return GPT-2's printable stand-in for each byte: its own character where it has one."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    characters = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(0x100) if byte not in printable)
    characters.update({chr(0x100 + rank): byte for rank, byte in enumerate(others)})
    return characters


_BYTE_OF_CHARACTER = _byte_characters()


def _bytes_of(token: str) -> bytes:
    try:
        return bytes(_BYTE_OF_CHARACTER[character] for character in token)
    except KeyError as error:
        raise ModelFileError(f"token {token!r} has a character that stands for no byte") from error


def _compile(chat_template: str) -> jinja2.Template:
    """Compile a chat template as transformers does; it can't reach anything but its input."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = _raise_template_error
    try:
        return environment.from_string(chat_template)
    except jinja2.TemplateError as error:
        raise ModelFileError(f"the chat template can't be compiled: {error}") from error


def _raise_template_error(message: str) -> None:
    raise jinja2.TemplateError(message)
