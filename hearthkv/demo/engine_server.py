"""The reference engine's HTTP server: OpenAI's chat API, /tokenize, /health and /metrics."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing

from aiohttp import web

from hearthkv.core.clock import unix_time
from hearthkv.core.errors import BadInputError, EngineBusyError
from hearthkv.core.session_id import SessionId
from hearthkv.demo.engine import Engine, Finished, Token
from hearthkv.demo.openai_api import (
    SSE_DONE,
    Answer,
    ChatMessage,
    ChatRequest,
    JsonObject,
    Usage,
    error_body,
    parse_chat_request,
    parse_messages,
    sse,
)
from hearthkv.metrics import PrometheusMeters

BODY_BYTES_MAX = 16 * 1024 * 1024
RETRY_AFTER_S = 1

SEND_S = 30.0
"""Seconds that a client gets to take a part of a stream: others wait while it does not read."""

_ENGINE = web.AppKey("engine", Engine)
_METERS = web.AppKey("meters", PrometheusMeters)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(engine: Engine, meters: PrometheusMeters) -> web.Application:
    """Return the application; the caller runs it and closes the engine."""
    app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[_errors_as_json])
    app[_ENGINE] = engine
    app[_METERS] = meters
    app.router.add_post("/v1/chat/completions", _chat)
    app.router.add_get("/v1/models", _models)
    app.router.add_post("/tokenize", _tokenize)
    app.router.add_get("/health", _health)
    app.router.add_get("/metrics", _metrics)
    return app


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer what goes wrong before a stream began in the shape that clients know."""
    try:
        return await handler(request)
    except BadInputError as error:
        return web.json_response(error_body(str(error), "invalid_request_error"), status=400)
    except EngineBusyError as error:
        return web.json_response(
            error_body(str(error), "overloaded_error"),
            status=503,
            headers={"Retry-After": str(RETRY_AFTER_S)},
        )
    except web.HTTPException as error:
        text = f"{request.method} {request.path}: {error.reason}"
        allow = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
        return web.json_response(
            error_body(text, "invalid_request_error"), status=error.status, headers=allow
        )


async def _chat(request: web.Request) -> web.StreamResponse:
    engine = request.app[_ENGINE]
    asked = parse_chat_request(await _json(request))
    if asked.model not in {"", engine.model.name}:
        text = f"model {asked.model!r} is not served here, must be {engine.model.name!r}"
        return web.json_response(error_body(text, "invalid_request_error"), status=404)
    prompt = await _encode(engine, asked.messages)
    answer = Answer(f"chatcmpl-{secrets.token_hex(12)}", engine.model.name, unix_time())
    steps = engine.generate(
        prompt,
        # A request that names no session is one of its own.
        session_id=asked.session_id or SessionId(f"request-{secrets.token_hex(12)}"),
        hint=asked.cache_hint,
        tokens_max=asked.max_tokens,
    )
    async with aclosing(steps):
        if asked.stream:
            return await _stream(request, asked, answer, prompt_tokens=len(prompt), steps=steps)
        return await _whole(engine, answer, len(prompt), steps)


async def _whole(
    engine: Engine, answer: Answer, prompt_tokens: int, steps: AsyncIterator[Token | Finished]
) -> web.Response:
    tokens: list[int] = []
    finished: Finished | None = None
    async for step in steps:
        if isinstance(step, Token):
            tokens.append(step.token)
        else:
            finished = step
    assert finished is not None
    return web.json_response(
        answer.completion(
            engine.model.tokenizer.decode(tokens),
            finished.finish_reason,
            usage=_usage(prompt_tokens, finished),
            extra=_extra(finished),
        )
    )


async def _stream(
    request: web.Request,
    asked: ChatRequest,
    answer: Answer,
    *,
    prompt_tokens: int,
    steps: AsyncIterator[Token | Finished],
) -> web.StreamResponse:
    """
    Send the answer as server-sent events.

    The response is prepared only once there is a first step: before that the request may
    still fail with a status of its own.
    """
    first = await anext(aiter(steps))
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
    )
    await response.prepare(request)
    text = request.app[_ENGINE].model.tokenizer.stream_decoder()
    await _send(response, answer.chunk({"role": "assistant", "content": ""}))
    async for step in _chained(first, steps):
        if isinstance(step, Token):
            piece = text.push(step.token)
            await _send(response, answer.chunk({"content": piece}))
            continue
        rest = text.finish()
        delta: JsonObject = {"content": rest} if rest else {}
        await _send(response, answer.chunk(delta, step.finish_reason))
        if asked.includes_usage:
            usage = answer.usage_chunk(_usage(prompt_tokens, step), _extra(step))
            await _send(response, usage)
        await response.write(SSE_DONE)
    await response.write_eof()
    return response


async def _send(response: web.StreamResponse, event: JsonObject, limit_s: float = SEND_S) -> None:
    try:
        async with asyncio.timeout(limit_s):
            await response.write(sse(event))
    except TimeoutError:
        # What the server takes for a client that left.
        raise ConnectionResetError(f"client took nothing for {limit_s:g} s") from None


async def _chained(
    first: Token | Finished, rest: AsyncIterator[Token | Finished]
) -> AsyncIterator[Token | Finished]:
    yield first
    async for step in rest:
        yield step


async def _models(request: web.Request) -> web.Response:
    engine = request.app[_ENGINE]
    model: JsonObject = {
        "id": engine.model.name,
        "object": "model",
        "created": 0,
        "owned_by": "hearthkv",
        "max_model_len": engine.model.decoder.shape.context_tokens,
    }
    return web.json_response({"object": "list", "data": [model]})


async def _tokenize(request: web.Request) -> web.Response:
    """Answer with a prompt's tokens, and with the namespace that their blocks are in."""
    engine = request.app[_ENGINE]
    tokens = await _encode(engine, parse_messages(await _json(request)))
    spec = engine.model.namespace.spec
    return web.json_response(
        {
            "count": len(tokens),
            "max_model_len": engine.model.decoder.shape.context_tokens,
            "tokens": tokens,
            "hearthkv": {
                "namespace_id": spec.namespace_id.hex(),
                "block_size": spec.block_size,
                "block_bytes": spec.block_bytes,
            },
        }
    )


async def _health(_request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _metrics(request: web.Request) -> web.Response:
    return web.Response(
        text=request.app[_METERS].text(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


async def _encode(engine: Engine, messages: Sequence[ChatMessage]) -> list[int]:
    """Return the tokens of a prompt. A long one takes long enough to leave the event loop."""
    return await asyncio.to_thread(engine.model.tokenizer.encode_prompt, messages)


async def _json(request: web.Request) -> object:
    try:
        body: object = await request.json()
    except (ValueError, LookupError) as error:  # the latter where a charset is unknown
        raise BadInputError(f"body is not JSON: {error}") from error
    except RecursionError as error:
        raise BadInputError("body is not JSON that can be read: it is nested too deep") from error
    return body


def _usage(prompt_tokens: int, finished: Finished) -> Usage:
    return Usage(prompt_tokens, finished.completion_tokens, finished.prefix.tokens.total)


def _extra(finished: Finished) -> JsonObject:
    """What a person who looks into the cache wants to see of one answer."""
    prefix, timings = finished.prefix, finished.timings
    return {
        "node_id": prefix.turn.node_id if prefix.turn else None,
        "reason": prefix.turn.reason.value if prefix.turn and prefix.turn.reason else None,
        "miss": prefix.miss or None,
        "cached_by_tier": {
            "hbm": prefix.tokens.hbm,
            "dram": prefix.tokens.dram,
            "ssd": prefix.tokens.ssd,
        },
        "ttft_s": timings.ttft_s,
        "timings": {
            "wait_s": timings.wait_s,
            "match_s": timings.match_s,
            "load_s": timings.load_s,
            "compute_s": timings.compute_s,
        },
    }
