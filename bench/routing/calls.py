"""Calls to a router, in turns with empty calls to the same process. Not pure."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle

from grpc import aio

from bench.routing.figures import Calls, CallTimes
from bench.routing.router_child import EMPTY_CALL
from bench.routing.workload import Session
from hearthkv.codec import router as codec
from hearthkv.v1.router_pb2_grpc import RouterStub

WARM_UP = 50
CONCURRENT = 32

Call = Callable[[], Awaitable[object]]


async def measure(
    address: str, empty_address: str, sessions: Sequence[Session], *, calls: int, busy_s: float
) -> Calls:
    """
    Route turns of one length.

    Args:
        address: The router's.
        empty_address: Of the server that answers empty calls, in the same process.
        sessions: Their next turns are routed, one after the other.
        calls: One after the other, and as many empty ones between them.
        busy_s: How long to call as often as is answered, either kind.
    """
    requests = cycle([codec.encode_route_request(session.query()) for session in sessions[:100]])
    async with (
        aio.insecure_channel(address) as routing,
        aio.insecure_channel(empty_address) as bare,
    ):
        stub = RouterStub(routing)
        ask_empty: aio.UnaryUnaryMultiCallable[bytes, bytes] = bare.unary_unary(EMPTY_CALL)

        async def route() -> object:
            return await stub.Route(next(requests))

        async def empty() -> object:
            return await ask_empty(b"")

        for _ in range(WARM_UP):
            await route()
            await empty()
        route_s: list[float] = []
        empty_s: list[float] = []
        for _ in range(calls):
            route_s.append(await _timed(route))
            empty_s.append(await _timed(empty))
        return Calls(
            CallTimes.of(route_s, await _rate(route, busy_s)),
            CallTimes.of(empty_s, await _rate(empty, busy_s)),
        )


async def _timed(call: Call) -> float:
    started_s = time.perf_counter()
    await call()
    return time.perf_counter() - started_s


async def _rate(call: Call, busy_s: float) -> float:
    """Calls a second, of several callers at once."""
    started_s = time.perf_counter()
    until_s = started_s + busy_s
    done = 0

    async def keep_calling() -> None:
        nonlocal done
        while time.perf_counter() < until_s:
            await call()
            done += 1

    await asyncio.gather(*(keep_calling() for _ in range(CONCURRENT)))
    return done / (time.perf_counter() - started_s)
