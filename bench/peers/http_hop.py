"""
What a router adds to an HTTP request before a worker that answers at once. Not pure.

Needs the standard library alone: it runs in the environments of routers. Requests go through the
router and straight to a worker, in turns; the hop is the difference of the medians.
"""

import asyncio
import json
import socket
import sys
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TextIO

from bench.datapath import child_side

WORKERS = 4
CALLS = 200
START_S = 60.0
BYTES_PER_TOKEN = 4

_ANSWER = json.dumps(
    {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "x"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()
_MODELS = json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode()

Command = Callable[[int, int, Sequence[str]], list[str]]
"""From the router's port, another free one, and the workers' URLs, the command that starts it."""


def main(command: Command) -> None:
    """Start the router, and answer what it adds for each length of a prompt, until stdin ends."""
    replies = child_side.replies()
    asyncio.run(_serve(replies, command))


def script(name: str) -> str:
    """Path of a program in this environment."""
    return str(Path(sys.executable).with_name(name))


async def _serve(replies: TextIO, command: Command) -> None:
    workers = [await asyncio.start_server(_work, "127.0.0.1", 0) for _ in range(WORKERS)]
    ports = [worker.sockets[0].getsockname()[1] for worker in workers]
    port = _free_port()
    router = await asyncio.create_subprocess_exec(
        *command(port, _free_port(), [f"http://127.0.0.1:{worker}" for worker in ports]),
        stdout=sys.stderr,
        stderr=sys.stderr,
    )
    try:
        await _until_ready(port)
        while line := await asyncio.to_thread(sys.stdin.readline):
            tokens = json.loads(line)["prompt_tokens"]
            added_ns = await _hop(port, ports[0], tokens)
            child_side.say(replies, {"added to an HTTP request": added_ns})
    finally:
        with suppress(ProcessLookupError):
            router.terminate()
        await router.wait()


async def _hop(router_port: int, worker_port: int, tokens: int) -> list[int]:
    """Median and 99th percentile of what is added, in ns."""
    content = "word" * (tokens * BYTES_PER_TOKEN // 4)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}).encode()
    through = await asyncio.open_connection("127.0.0.1", router_port)
    straight = await asyncio.open_connection("127.0.0.1", worker_port)
    for _ in range(10):
        await _post(*through, body)
        await _post(*straight, body)
    through_ns = []
    straight_ns = []
    for _ in range(CALLS):
        through_ns.append(await _post(*through, body))
        straight_ns.append(await _post(*straight, body))
    for _, writer in (through, straight):
        writer.close()
    through_ns.sort()
    floor_ns = median(straight_ns)
    return [round(through_ns[at] - floor_ns) for at in (CALLS // 2, CALLS * 99 // 100)]


async def _post(reader: StreamReader, writer: StreamWriter, body: bytes) -> int:
    """Send one request and read its answer; return how long that took, in ns."""
    started_ns = time.perf_counter_ns()
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n" % len(body)
    )
    writer.write(body)
    status, answer = await _read(reader)
    assert b" 200 " in status, answer
    return time.perf_counter_ns() - started_ns


async def _work(reader: StreamReader, writer: StreamWriter) -> None:
    """A worker: answers whatever is asked, until the other side hangs up."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            request, _ = await _read(reader)
            path = request.split(b" ")[1]
            answer = _ANSWER if path.endswith(b"completions") else _MODELS
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n%b" % (len(answer), answer)
            )
    writer.close()


async def _read(reader: StreamReader) -> tuple[bytes, bytes]:
    """Read a message of HTTP/1.1: its first line, and its body."""
    first = await reader.readuntil(b"\r\n")
    size, is_chunked = 0, False
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        name, _, value = line.lower().partition(b":")
        if name == b"content-length":
            size = int(value)
        is_chunked = is_chunked or (name == b"transfer-encoding" and b"chunked" in value)
    if not is_chunked:
        return first, await reader.readexactly(size)
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return first, body


async def _until_ready(port: int) -> None:
    """Wait until a request comes through the router."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
    until_s = time.monotonic() + START_S
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            async with asyncio.timeout(5):
                await _post(reader, writer, body)
            writer.close()
        except (OSError, AssertionError, TimeoutError, asyncio.IncompleteReadError):
            if time.monotonic() > until_s:
                raise
            await asyncio.sleep(0.5)
        else:
            return


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port
