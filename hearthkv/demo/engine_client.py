"""Speaks to an engine over HTTP: OpenAI's chat API, and /tokenize. Measures the TTFT."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

import aiohttp

from hearthkv.core.clock import Clock
from hearthkv.core.errors import HearthKVError, PeerError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.routing import CacheHint
from hearthkv.core.tier import TierCounts
from hearthkv.demo.script import Message

Kind = TypeVar("Kind")

Tools = Sequence[Mapping[str, object]]

ANSWER_TIMEOUT_S = 600.0
"""Seconds for one answer. A long prompt takes a minute on a slow machine."""

ERROR_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True)
class Tokenized:
    """A prompt as the engine's model sees it."""

    tokens: Sequence[int]
    context_tokens: int
    """Longest prompt and answer together that the model takes."""

    namespace: NamespaceSpec


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A streamed answer, at its end."""

    text: str
    ttft_s: float
    prompt_tokens: int
    cached: TierCounts
    miss: str
    timings: Mapping[str, float]


class EngineClient:
    """Calls engines. Any trouble with one is a PeerError that names its URL."""

    def __init__(self, http: aiohttp.ClientSession, clock: Clock) -> None:
        self._http = http
        self._clock = clock

    async def tokenize(self, url: str, messages: Sequence[Message], tools: Tools) -> Tokenized:
        """
        Return the tokens of a prompt.

        Raises:
            PeerError: If the engine can't be reached or answers something else.
        """
        asked = {"messages": list(messages), "tools": list(tools)}
        async with self._post(f"{url}/tokenize", asked) as response:
            body: object = await response.json()
        extra = pick(body, "hearthkv", dict)
        return Tokenized(
            tokens=pick(body, "tokens", list),
            context_tokens=pick(body, "max_model_len", int),
            namespace=NamespaceSpec(
                bytes.fromhex(pick(extra, "namespace_id", str)),
                pick(extra, "block_size", int),
                pick(extra, "block_bytes", int),
            ),
        )

    async def chat(
        self,
        url: str,
        messages: Sequence[Message],
        tools: Tools,
        *,
        session_id: str,
        hint: CacheHint,
        tokens_max: int,
    ) -> ChatAnswer:
        """
        Return the model's answer, streamed.

        Raises:
            PeerError: If the engine can't be reached, or its stream breaks off.
        """
        asked = {
            "messages": list(messages),
            "tools": list(tools),
            "temperature": 0,
            "max_tokens": tokens_max,
            "stream": True,
            "stream_options": {"include_usage": True},
            "metadata": {"session_id": session_id, "cache_hint": hint.value},
        }
        sent_s = self._clock.now()
        first_s: float | None = None
        pieces: list[str] = []
        last: object = None
        async with self._post(f"{url}/v1/chat/completions", asked) as response:
            async for event in _events(response):
                piece = _piece(event)
                # An answer without any text ends the wait, too.
                if first_s is None and (piece or _is_finished(event)):
                    first_s = self._clock.now()
                pieces.append(piece)
                last = event
        if first_s is None:
            raise PeerError(f"{url}: the answer breaks off before its first token")
        return _answer("".join(pieces), first_s - sent_s, last)

    @asynccontextmanager
    async def _post(
        self, url: str, body: Mapping[str, object]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S)
        try:
            async with self._http.post(url, json=body, timeout=timeout) as response:
                if response.status != HTTPStatus.OK:
                    text = (await response.text())[:ERROR_CHARACTERS_MAX]
                    raise PeerError(f"{url}: status {response.status}: {text}")
                yield response
        except TimeoutError as error:
            raise PeerError(f"{url}: no answer within {ANSWER_TIMEOUT_S:g} s") from error
        except (aiohttp.ClientError, ValueError, HearthKVError) as error:
            if isinstance(error, PeerError):
                raise
            raise PeerError(f"{url}: {str(error) or type(error).__name__}") from error


def pick(body: object, name: str, kind: type[Kind]) -> Kind:
    """
    Return a field of a JSON object.

    Raises:
        PeerError: If it is absent or of another kind.
    """
    value = body.get(name) if isinstance(body, dict) else None
    if not isinstance(value, kind):
        raise PeerError(f"{name} is {value!r}, must be a {kind.__name__}")
    return value


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[object]:
    """Yield the JSON of a stream's server-sent events, and read it to its end."""
    is_done = False
    async for line in response.content:
        text = line.removeprefix(b"data:").strip()
        if text == b"[DONE]":
            # There is nothing more to come, but only a stream that was read to its end leaves
            # its connection open for the next request.
            is_done = True
        elif line.startswith(b"data:"):
            event: object = json.loads(text)
            yield event
    if not is_done:
        raise PeerError(f"{response.url}: the answer breaks off before [DONE]")


def _first_choice(event: object) -> Mapping[str, object]:
    choices = pick(event, "choices", list)
    choice: object = choices[0] if choices else {}
    return choice if isinstance(choice, dict) else {}


def _piece(event: object) -> str:
    delta = _first_choice(event).get("delta")
    content = delta.get("content") if isinstance(delta, dict) else None
    return content if isinstance(content, str) else ""


def _is_finished(event: object) -> bool:
    return _first_choice(event).get("finish_reason") is not None


def _answer(text: str, ttft_s: float, last: object) -> ChatAnswer:
    """Return the answer with the figures of the stream's last event."""
    extra = pick(last, "hearthkv", dict)
    by_tier = pick(extra, "cached_by_tier", dict)
    miss = extra.get("miss")
    return ChatAnswer(
        text=text,
        ttft_s=ttft_s,
        prompt_tokens=pick(pick(last, "usage", dict), "prompt_tokens", int),
        cached=TierCounts(*(pick(by_tier, tier, int) for tier in ("hbm", "dram", "ssd"))),
        miss=miss if isinstance(miss, str) else "",
        timings={name: float(value) for name, value in pick(extra, "timings", dict).items()},
    )
