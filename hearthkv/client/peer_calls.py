"""
The frame around every call to a peer: who may be called, and what its failure means. Not pure.

gRPC's errors are translated here, and only here, into the PeerErrors of `core.errors`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

import grpc
from grpc import aio

from hearthkv.client.events import PeerFailed
from hearthkv.client.peers import Peers
from hearthkv.core.clock import Clock
from hearthkv.core.errors import (
    BadInputError,
    PeerContractError,
    PeerError,
    PeerRefusedError,
    PeerTimeoutError,
    PeerUnreachableError,
)
from hearthkv.telemetry import Telemetry

ANSWER_TRAILER = "grpc-status-details-bin"
"""Servers of HearthKV send it with every error of theirs; an error of the transport lacks it."""

Message = TypeVar("Message")
Request = TypeVar("Request")


class PeerCalls:
    """Lets calls to peers through, or turns them away while the peer is left alone."""

    def __init__(self, peers: Peers, clock: Clock, telemetry: Telemetry) -> None:
        self.clock = clock
        self.telemetry = telemetry
        self._peers = peers
        self._is_closed = False

    @contextmanager
    def call(self, address: str) -> Iterator[None]:
        """
        Frame one call to a peer.

        Raises:
            PeerUnreachableError: If it can't be reached, or is left alone after it could not be.
            PeerTimeoutError: If it did not answer in time.
            PeerRefusedError: If it answered with an error.
            PeerContractError: If its answer can't be understood.
        """
        if self._is_closed:
            raise PeerUnreachableError(f"the client is closed, and {address} is not called")
        if not self._peers.admit(address, self.clock.now()):
            raise PeerUnreachableError(f"{address} failed a moment ago, and is left alone for now")
        try:
            yield
        except PeerError as error:
            self._take_note(address, error)
            raise
        except (aio.AioRpcError, BadInputError, TimeoutError) as cause:
            translated = _peer_error(address, cause)
            self._take_note(address, translated)
            raise translated from cause
        except asyncio.CancelledError:
            if _is_own_task_cancelled():
                raise
            raise PeerUnreachableError(f"the channel to {address} was closed") from None
        self._peers.answered(address)

    def check(self, address: str) -> None:
        """
        Look before a call that goes on beside others, and is framed each time it is looked at.

        Raises:
            PeerUnreachableError: If the client is closed, or the peer is left alone.
        """
        if self._is_closed:
            raise PeerUnreachableError(f"the client is closed, and {address} is not called")
        if address in self.skipped():
            raise PeerUnreachableError(f"{address} failed a moment ago, and is left alone for now")

    def answered(self, address: str) -> None:
        """Take note that a peer answers while a call to it goes on."""
        self._peers.answered(address)

    def close(self) -> None:
        """Let no call through any more."""
        self._is_closed = True

    def skipped(self) -> frozenset[str]:
        """Addresses that are left alone now."""
        return self._peers.skipped(self.clock.now())

    def _take_note(self, address: str, error: PeerError) -> None:
        if isinstance(error, PeerUnreachableError | PeerTimeoutError):
            cooldown_s = self._peers.failed(address, self.clock.now())
            self.telemetry.emit(PeerFailed(address, str(error), cooldown_s))
        else:
            self._peers.answered(address)


def understood(message: Message | None) -> Message:
    """
    Return a message; gRPC gives None for bytes that are none.

    Raises:
        PeerContractError: If there is no message.
    """
    if message is None:
        raise PeerContractError("answer is not a message of the contract")
    return message


async def next_message(call: "aio.UnaryStreamCall[Request, Message]") -> Message | None:
    """
    Return the next message of a stream; None at its end.

    Raises:
        PeerContractError: If what came is no message.
    """
    message = await call.read()
    return None if message is aio.EOF else understood(cast("Message | None", message))


def _peer_error(address: str, cause: aio.AioRpcError | BadInputError | TimeoutError) -> PeerError:
    if isinstance(cause, BadInputError):
        return PeerContractError(f"{address} sent what can't be used: {cause}")
    if isinstance(cause, TimeoutError):
        return PeerTimeoutError(f"{address} did not answer in time")
    code, details = cause.code(), cause.details()
    trailers = cause.trailing_metadata() or ()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return PeerTimeoutError(f"{address} did not answer in time: {details}")
    is_answer = any(key == ANSWER_TRAILER for key, _ in trailers)
    if code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED} and not is_answer:
        return PeerUnreachableError(f"{address} can't be reached: {details}")
    return PeerRefusedError(f"{address} answers {code.name}: {details}", status=code.name)


def _is_own_task_cancelled() -> bool:
    """Whether somebody cancelled this task; else gRPC cancelled the call under it."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
