"""The part of OpenAI's chat API that the reference engine speaks: requests and answers. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hearthkv.core.errors import BadRequestError
from hearthkv.core.routing import CacheHint
from hearthkv.core.session_id import SessionId, check_session_id

JsonObject = dict[str, object]

ROLES = ("system", "developer", "user", "assistant", "tool")
MESSAGES_MAX = 4096
OUTPUT_TOKENS_DEFAULT = 256


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message as the chat template takes it: everything in it has become text."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request for a chat completion. Decoding is greedy, whatever temperature is asked for."""

    model: str
    messages: tuple[ChatMessage, ...]
    stream: bool
    includes_usage: bool
    """Whether a stream ends with its figures; only a client that asks for none gets none."""

    max_tokens: int
    session_id: SessionId | None
    cache_hint: CacheHint


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one completion."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int

    def as_json(self) -> JsonObject:
        """Return the figures as the API names them."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


def parse_chat_request(body: object) -> ChatRequest:
    """
    Return a chat request.

    Raises:
        BadRequestError: If a field can't be used; names it, what was found and what is allowed.
        BadSessionIdError: If `metadata.session_id` is malformed.
    """
    fields = _object(body, "body")
    metadata = _optional_object(fields, "metadata")
    session = _optional_text(metadata, "session_id", within="metadata.")
    options = _optional_object(fields, "stream_options")
    return ChatRequest(
        model=_optional_text(fields, "model") or "",
        messages=parse_messages(fields),
        stream=_flag(fields, "stream", default=False),
        includes_usage=_flag(options, "include_usage", default=True, within="stream_options."),
        max_tokens=_max_tokens(fields),
        session_id=None if session is None else check_session_id(session),
        cache_hint=_cache_hint(metadata.get("cache_hint")),
    )


def parse_messages(body: object) -> tuple[ChatMessage, ...]:
    """
    Return the messages of a request, its tools written into the system message.

    Raises:
        BadRequestError: If messages or tools can't be used.
    """
    fields = _object(body, "body")
    raw = fields.get("messages")
    if not isinstance(raw, list) or not 1 <= len(raw) <= MESSAGES_MAX:
        raise BadRequestError(f"messages must be a list of 1 to {MESSAGES_MAX} messages")
    messages = [_message(item, index) for index, item in enumerate(raw)]
    tools = _optional_list(fields, "tools")
    if tools:
        listing = "\n".join(
            _canonical(_object(tool, f"tools[{index}]"), f"tools[{index}]")
            for index, tool in enumerate(tools)
        )
        text = f"You may call these tools, one JSON object a line:\n{listing}"
        if messages[0].role == "system":
            messages[0] = ChatMessage("system", f"{messages[0].content}\n\n{text}")
        else:
            messages.insert(0, ChatMessage("system", text))
    return tuple(messages)


@dataclass(frozen=True, slots=True)
class Answer:
    """Builds the objects of one answer, which share their id, model and time."""

    completion_id: str
    model: str
    created: int
    """Seconds since 1970."""

    def completion(
        self, text: str, finish_reason: str, *, usage: Usage, extra: JsonObject
    ) -> JsonObject:
        """Return the whole answer, not streamed; `extra` goes under `hearthkv`."""
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": finish_reason,
        }
        return self._object("chat.completion", [choice]) | {
            "usage": usage.as_json(),
            "hearthkv": extra,
        }

    def chunk(self, delta: JsonObject, finish_reason: str | None = None) -> JsonObject:
        """Return one part of a streamed answer."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return self._object("chat.completion.chunk", [choice])

    def usage_chunk(self, usage: Usage, extra: JsonObject) -> JsonObject:
        """Return the last part of a streamed answer: no choice, but the figures."""
        return self._object("chat.completion.chunk", []) | {
            "usage": usage.as_json(),
            "hearthkv": extra,
        }

    def _object(self, kind: str, choices: list[JsonObject]) -> JsonObject:
        return {
            "id": self.completion_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def error_body(message: str, kind: str) -> JsonObject:
    """Return an error as clients of the API know it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def sse(event: Mapping[str, object]) -> bytes:
    """Return one server-sent event."""
    return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"


SSE_DONE = b"data: [DONE]\n\n"


def _message(item: object, index: int) -> ChatMessage:
    where = f"messages[{index}]"
    fields = _object(item, where)
    role = fields.get("role")
    if role not in ROLES:  # a tuple, for a role may be anything
        raise BadRequestError(
            f"{where}.role is {role!r}, must be system, developer, user, assistant or tool"
        )
    text = _text(fields.get("content"), where)
    calls = _optional_list(fields, "tool_calls", within=f"{where}.")
    lines = [text] if text else []
    lines += [_canonical(call, f"{where}.tool_calls") for call in calls]
    return ChatMessage("system" if role == "developer" else str(role), "\n".join(lines))


def _text(content: object, where: str) -> str:
    """A content is a text, or a list of parts of which only texts can be used here."""
    if content is None:
        return ""
    if isinstance(content, str):
        return _encodable(content, f"{where}.content")
    if not isinstance(content, Sequence):
        raise BadRequestError(f"{where}.content must be a text or a list of parts")
    texts: list[str] = []
    for index, part in enumerate(content):
        fields = _object(part, f"{where}.content[{index}]")
        text = fields.get("text")
        if fields.get("type") != "text" or not isinstance(text, str):
            raise BadRequestError(
                f"{where}.content[{index}].type is {fields.get('type')!r}, must be 'text'"
            )
        texts.append(_encodable(text, f"{where}.content[{index}].text"))
    return "".join(texts)


def _max_tokens(fields: JsonObject) -> int:
    for name in ("max_completion_tokens", "max_tokens"):
        value = fields.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BadRequestError(f"{name} is {value!r}, must be a whole number >= 1")
        return value
    return OUTPUT_TOKENS_DEFAULT


def _flag(fields: JsonObject, name: str, *, default: bool, within: str = "") -> bool:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise BadRequestError(f"{within}{name} is {value!r}, must be true or false")
    return value


def _cache_hint(value: object) -> CacheHint:
    """A request that names a session and no hint wants its cache: that is what it is for."""
    if value is None:
        return CacheHint.REUSE
    try:
        return CacheHint(value)
    except ValueError:
        allowed = ", ".join(hint.value for hint in CacheHint)
        raise BadRequestError(
            f"metadata.cache_hint is {value!r}, must be one of {allowed}"
        ) from None


def _object(value: object, where: str) -> JsonObject:
    if not isinstance(value, dict):
        raise BadRequestError(f"{where} is a {type(value).__name__}, must be an object")
    return value


def _optional_text(fields: JsonObject, name: str, *, within: str = "") -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequestError(f"{within}{name} is {value!r}, must be a text")
    return value


def _optional_object(fields: JsonObject, name: str) -> JsonObject:
    value = fields.get(name)
    return {} if value is None else _object(value, name)


def _optional_list(fields: JsonObject, name: str, *, within: str = "") -> list[object]:
    value = fields.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRequestError(f"{within}{name} is a {type(value).__name__}, must be a list")
    return value


def _canonical(value: object, where: str) -> str:
    """JSON with sorted keys: a client that reorders them must not break its own prefix."""
    try:
        return _encodable(json.dumps(value, sort_keys=True, ensure_ascii=False), where)
    except RecursionError as error:
        raise BadRequestError(f"{where} is nested too deep to be written as JSON") from error


def _encodable(text: str, where: str) -> str:
    """JSON may spell half of a surrogate pair, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequestError(
            f"{where} has the lone surrogate U+{ord(text[error.start]):04X} "
            f"at {error.start}, must be UTF-8"
        ) from None
    return text
