"""The caller's side of gRPC, as far as the code uses it: `grpc.aio.Channel` and its calls."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import grpc
from grpc import aio

from tests.scenario.sim.machines import current_process
from tests.scenario.sim.rpc import Call, Fabric, Status

Encode = Callable[[Any], bytes] | None
Decode = Callable[[bytes], Any] | None


@contextmanager
def channels_over(fabric: Fabric) -> Iterator[None]:
    """Let every channel that is opened meanwhile be one of the simulation."""
    real = aio.insecure_channel
    aio.insecure_channel = lambda address, **_: SimChannel(fabric, address)
    try:
        yield
    finally:
        aio.insecure_channel = real


class SimCall:
    """What a stub returns."""

    def __init__(self, call: Call, encode: Encode, decode: Decode) -> None:
        self._call = call
        self._encode = encode
        self._decode = decode
        self._sending: asyncio.Task[None] | None = None

    def __await__(self) -> Generator[Any, None, Any]:
        """The one answer of a call that has one."""
        return self._answer().__await__()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._messages()

    async def read(self) -> Any:
        with self._leaving_if_cancelled():
            message = await self._call.read()
        if message is None:
            self._raise_unless_ok()
            return aio.EOF
        return self._decoded(message)

    async def write(self, message: Any) -> None:
        if self._call.status is not None:
            raise asyncio.InvalidStateError("the call is over")
        with self._leaving_if_cancelled():
            if not await self._call.write(self._encoded(message)):
                self._raise_unless_ok()
                raise asyncio.InvalidStateError("the call is over")

    @property
    def is_over(self) -> bool:
        return self._call.status is not None

    async def done_writing(self) -> None:
        self._call.half_close()

    def cancel(self) -> bool:
        if self._sending is not None:
            self._sending.cancel()
        return self._call.cancel()

    def send_one(self, message: Any) -> None:
        self._call.requests.send(self._encoded(message))
        self._call.half_close()

    def send_all(self, messages: Iterable[Any]) -> None:
        self._sending = asyncio.get_running_loop().create_task(self._send_all(messages))

    async def _send_all(self, messages: Iterable[Any]) -> None:
        for message in messages:
            if not await self._call.write(self._encoded(message)):
                return
        self._call.half_close()

    async def _answer(self) -> Any:
        with self._leaving_if_cancelled():
            message = await self._call.read()
            while self._call.status is None:
                await self._call.read()
        self._raise_unless_ok()
        assert message is not None, "a call ended well without its answer"
        return self._decoded(message)

    async def _messages(self) -> AsyncIterator[Any]:
        while (message := await self.read()) is not aio.EOF:
            yield message

    @contextmanager
    def _leaving_if_cancelled(self) -> Iterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            self.cancel()
            raise

    def _raise_unless_ok(self) -> None:
        status = self._call.status
        assert status is not None
        if self._call.was_cancelled:
            raise asyncio.CancelledError
        if status.code is not grpc.StatusCode.OK:
            raise _error(status)

    def _encoded(self, message: Any) -> bytes:
        return message if self._encode is None else self._encode(message)

    def _decoded(self, message: bytes) -> Any:
        return message if self._decode is None else self._decode(message)


class SimChannel:
    """What `grpc.aio.insecure_channel` returns in a simulation."""

    def __init__(self, fabric: Fabric, address: str) -> None:
        self._fabric = fabric
        self._address = address
        self._process = current_process()
        self._calls: list[SimCall] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        for call in self._calls:
            call.cancel()

    def unary_unary(
        self,
        method: str,
        request_serializer: Encode = None,
        response_deserializer: Decode = None,
        **_: Any,
    ) -> Callable[..., SimCall]:
        return self._one_request(method, request_serializer, response_deserializer)

    def unary_stream(
        self,
        method: str,
        request_serializer: Encode = None,
        response_deserializer: Decode = None,
        **_: Any,
    ) -> Callable[..., SimCall]:
        return self._one_request(method, request_serializer, response_deserializer)

    def stream_unary(
        self,
        method: str,
        request_serializer: Encode = None,
        response_deserializer: Decode = None,
        **_: Any,
    ) -> Callable[..., SimCall]:
        return self._many_requests(method, request_serializer, response_deserializer)

    def stream_stream(
        self,
        method: str,
        request_serializer: Encode = None,
        response_deserializer: Decode = None,
        **_: Any,
    ) -> Callable[..., SimCall]:
        return self._many_requests(method, request_serializer, response_deserializer)

    def _one_request(self, method: str, encode: Encode, decode: Decode) -> Callable[..., SimCall]:
        def call(request: Any, timeout: float | None = None, **_: Any) -> SimCall:
            opened = self._open(method, encode, decode, timeout)
            opened.send_one(request)
            return opened

        return call

    def _many_requests(self, method: str, encode: Encode, decode: Decode) -> Callable[..., SimCall]:
        def call(
            requests: Iterable[Any] | None = None, timeout: float | None = None, **_: Any
        ) -> SimCall:
            opened = self._open(method, encode, decode, timeout)
            if requests is not None:
                opened.send_all(requests)
            return opened

        return call

    def _open(self, method: str, encode: Encode, decode: Decode, timeout: float | None) -> SimCall:
        if not self._process.is_alive:
            raise asyncio.CancelledError
        call = Call(self._fabric, self._process, self._address, method)
        if timeout is not None:
            call.expire_in(timeout)
        opened = SimCall(call, encode, decode)
        self._calls = [each for each in self._calls if not each.is_over]
        self._calls.append(opened)
        return opened


def _error(status: Status) -> aio.AioRpcError:
    return aio.AioRpcError(
        status.code, aio.Metadata(), aio.Metadata(*status.trailers), details=status.details
    )
