"""hearthkv/grpc_server.py: binding, and errors with a stable reason."""

import asyncio
import socket

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hearthkv.codec.status import decode_reason
from hearthkv.core import errors
from hearthkv.core.address import split_address
from hearthkv.core.errors import (
    BadInputError,
    BadKeysError,
    HearthKVError,
    NoNodeError,
    StartupError,
)
from hearthkv.grpc_server import (
    add_standard_services,
    bind,
    check_free,
    errors_as_status,
    new_server,
    reason_of,
)

TABLE = {BadInputError: grpc.StatusCode.INVALID_ARGUMENT}


class FailingHealth(health_pb2_grpc.HealthServicer):
    """A service of which every call raises an error."""

    def __init__(self, error: HearthKVError):
        self.error = error

    async def Check(self, request, context):  # noqa: N802
        async with errors_as_status(context, TABLE):
            raise self.error


async def answer_to(error: HearthKVError) -> aio.AioRpcError:
    """What a caller gets where a call raises `error`."""
    server = new_server()
    health_pb2_grpc.add_HealthServicer_to_server(FailingHealth(error), server)
    address = bind(server, "127.0.0.1:0")
    await server.start()
    try:
        async with aio.insecure_channel(address) as channel:
            with pytest.raises(aio.AioRpcError) as caught:
                await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            return caught.value
    finally:
        await server.stop(None)


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (BadInputError("x is 1"), grpc.StatusCode.INVALID_ARGUMENT, "BAD_INPUT"),
        (BadKeysError("x is 1"), grpc.StatusCode.INVALID_ARGUMENT, "BAD_KEYS"),
        (NoNodeError("x is 1"), grpc.StatusCode.INTERNAL, "NO_NODE"),
    ],
    ids=["in-the-table", "as-its-parent", "not-in-the-table"],
)
async def test_an_error_leaves_as_status_text_and_reason(error, code, reason):
    answer = await answer_to(error)
    assert answer.code() is code
    assert answer.details() == "x is 1"
    assert decode_reason(answer.trailing_metadata()) == reason


def test_the_reasons_that_programs_rely_on_are_stable():
    found = {
        reason_of(error)
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, (BadInputError, NoNodeError))
    }
    assert found >= {
        "BAD_INPUT",
        "BAD_KEYS",
        "BAD_SESSION_ID",
        "BAD_NAMESPACE",
        "BLOCK_SIZE",
        "LAYOUT_MISMATCH",
        "BAD_REQUEST",
        "NO_NODE",
    }


async def test_a_free_port_is_taken_and_told():
    server = new_server()
    host, port = split_address(bind(server, "127.0.0.1:0"))
    assert host == "127.0.0.1"
    assert port > 0
    await server.stop(None)


async def test_a_port_in_use_is_named_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartupError) as caught:
            bind(new_server(), address)
    assert str(caught.value) == (
        f"can't listen on {address}: Address already in use; stop what uses it, or choose "
        f"another with --listen, port 0 for any free one"
    )


async def test_a_port_that_another_server_of_ours_has_is_not_shared():
    server = new_server()
    address = bind(server, "127.0.0.1:0")
    with pytest.raises(StartupError, match="Address already in use"):
        bind(new_server(), address)
    await server.stop(None)


def test_a_port_that_is_taken_in_the_last_moment_is_named():
    class LateServer:
        def add_insecure_port(self, address: str) -> int:
            raise RuntimeError(f"Failed to bind to address {address}")

    with pytest.raises(StartupError, match=r"can't listen on 127.0.0.1:0: Failed to bind"):
        bind(LateServer(), "127.0.0.1:0")  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
async def test_a_host_that_is_not_this_machine_is_named(host: str):
    with pytest.raises(StartupError, match=f"can't listen on {host}:7400: "):
        bind(new_server(), f"{host}:7400")


async def test_health_serves_when_told_and_not_before_or_after():
    server = new_server()
    report = add_standard_services(server, ("tea.Kettle",))
    address = bind(server, "127.0.0.1:0")
    await server.start()
    request = health_pb2.HealthCheckRequest(service="tea.Kettle")
    async with aio.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(aio.AioRpcError) as caught:
            await stub.Check(request)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        await report.serving()
        assert (await stub.Check(request)).status == health_pb2.HealthCheckResponse.SERVING
        await report.stopping()
        assert (await stub.Check(request)).status == health_pb2.HealthCheckResponse.NOT_SERVING
    await server.stop(None)


class WaitingHealth(health_pb2_grpc.HealthServicer):
    """A service that answers when it is told to."""

    def __init__(self):
        self.called = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def Check(self, request, context):  # noqa: N802
        self.called.set()
        await self.may_answer.wait()
        return health_pb2.HealthCheckResponse()


async def test_calls_at_once_are_bounded_and_one_more_is_refused_at_once():
    """I3."""
    server, health = new_server(calls_max=1), WaitingHealth()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    address = bind(server, "127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        first = asyncio.ensure_future(stub.Check(health_pb2.HealthCheckRequest()))
        await health.called.wait()
        with pytest.raises(aio.AioRpcError) as caught:
            await stub.Check(health_pb2.HealthCheckRequest())
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        health.may_answer.set()
        await first
    await server.stop(None)


def test_a_port_in_use_is_refused_with_the_flag_that_chooses_another():
    check_free("127.0.0.1", 0, choose="--port")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(StartupError, match=rf"can't listen on 127.0.0.1:{port}: .*--port"):
            check_free("127.0.0.1", port, choose="--port")
