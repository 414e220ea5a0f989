"""The server's side of gRPC, as far as the code uses it: `grpc.aio.Server` and its contexts."""

import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NoReturn

import grpc

from tests.scenario.sim.machines import Process
from tests.scenario.sim.rpc import Fabric, Serve, ServerEnd, Status, Trailers, abort


class SimServer:
    """Takes the handlers of services, and lets a process serve them at an address."""

    def __init__(self) -> None:
        self._methods: dict[str, Serve] = {}

    def add_generic_rpc_handlers(self, handlers: Sequence[object]) -> None:
        """Passed over: all of them are registered as well."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        for name, handler in handlers.items():
            self._methods[f"/{service}/{name}"] = _serve_by(handler)

    def start(self, fabric: Fabric, address: str, process: Process) -> None:
        fabric.listen(address, process, self._methods)


class SimContext:
    """What a service knows of the call that it serves."""

    def __init__(self, end: ServerEnd, handler: Any) -> None:
        self._end = end
        self._encode = handler.response_serializer

    async def write(self, message: Any) -> None:
        await self._end.write(message if self._encode is None else self._encode(message))

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Trailers = ()
    ) -> NoReturn:
        abort(Status(code, details, tuple(trailing_metadata)))
        raise AssertionError("a call that was ended goes on")


def _serve_by(handler: Any) -> Serve:
    # Of the four functions of a handler, one is there.
    behave = next(
        function
        for function in (
            handler.unary_unary,
            handler.unary_stream,
            handler.stream_unary,
            handler.stream_stream,
        )
        if function is not None
    )

    async def serve(end: ServerEnd) -> None:
        context = SimContext(end, handler)
        requests = _requests(end, handler.request_deserializer)
        request = requests if handler.request_streaming else await anext(requests)
        answer = behave(request, context)
        if inspect.isasyncgen(answer):
            async with aclosing(answer):
                async for message in answer:
                    await context.write(message)
            return
        message = await answer
        if not handler.response_streaming:
            await context.write(message)

    return serve


async def _requests(end: ServerEnd, decode: Any) -> AsyncIterator[Any]:
    while (message := await end.read()) is not None:
        yield message if decode is None else decode(message)
