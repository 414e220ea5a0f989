"""What a peer may do wrong instead of answering."""

import asyncio
from dataclasses import dataclass, field

import grpc


@dataclass(frozen=True)
class Stall:
    """Says nothing more, and keeps the call open until the caller ends it."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class Fail:
    """Ends the call with a status, as a server of ours or as the transport does."""

    code: grpc.StatusCode
    is_answer: bool = False
    """Whether it carries the details that mark an error as the server's own."""


async def act(trouble: Stall | Fail, context) -> None:
    """Do what a misbehaviour says; never returns in peace."""
    if isinstance(trouble, Fail):
        trailers = (("grpc-status-details-bin", b""),) if trouble.is_answer else ()
        await context.abort(trouble.code, "as the test wants", trailers)
    try:
        trouble.begun.set()
        await asyncio.Event().wait()
    finally:
        trouble.ended.set()
