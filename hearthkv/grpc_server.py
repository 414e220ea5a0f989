"""
What the gRPC servers have in common: options, binding, health, reflection, errors.

An error leaves a server as a gRPC status from the server's own table, with a
`google.rpc.ErrorInfo` whose reason programs can rely on.
"""

import re
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

import grpc
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from hearthkv.codec.status import DETAILS_TRAILER, encode_status
from hearthkv.core.address import split_address
from hearthkv.core.errors import HearthKVError, StartupError

MESSAGE_BYTES_MAX = 4 * 1024 * 1024 + 64 * 1024
"""Bytes of one message: four chunks of a block, or 130,000 keys of 32 bytes, and some slack."""

Context: TypeAlias = "aio.ServicerContext[object, object]"
StatusTable = Mapping[type[HearthKVError], grpc.StatusCode]

_OPTIONS = (
    # With SO_REUSEPORT a second process would silently share the port and get half of the calls.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    # A caller that vanished without a word leaves its call after 15 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
)


class HealthReport:
    """The standard health service of one server, which starts as not serving."""

    def __init__(self, server: aio.Server, service_names: Sequence[str]) -> None:
        # The attribute is set at run time, where pyright does not see it.
        self._servicer = health.aio.HealthServicer()  # pyright: ignore[reportAttributeAccessIssue]
        self._names = ("", *service_names)
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def serving(self) -> None:
        """Report that all services take calls."""
        for name in self._names:
            await self._servicer.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stopping(self) -> None:
        """Report, for good, that no service takes calls any more."""
        await self._servicer.enter_graceful_shutdown()


def new_server(calls_max: int | None = None) -> aio.Server:
    """
    Return a server with the bounds and options that all servers share.

    Args:
        calls_max: Calls that run at once; one more is refused with RESOURCE_EXHAUSTED. None for a
            server whose peers keep streams open, of which there are as many as there are peers.
    """
    return aio.server(options=_OPTIONS, maximum_concurrent_rpcs=calls_max)


def add_standard_services(server: aio.Server, service_names: Sequence[str]) -> HealthReport:
    """Serve health and reflection next to the named services."""
    report = HealthReport(server, service_names)
    names = (*service_names, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    return report


def bind(server: aio.Server, listen: str) -> str:
    """
    Open a server's port and return its address, with the port that was really taken.

    Args:
        server: A server that was not started yet.
        listen: host:port, where port 0 means any free one; an IPv6 host stands in brackets.

    Raises:
        StartupError: If the address is not understood, in use, or not of this machine.
    """
    host, port = split_address(listen)
    check_free(host, port, choose="--listen")
    try:
        bound_port = server.add_insecure_port(listen)
    except RuntimeError as error:  # taken since it was tried
        raise StartupError(f"can't listen on {listen}: {error}; choose another --listen") from error
    return f"{listen.rpartition(':')[0]}:{bound_port}"


@asynccontextmanager
async def errors_as_status(context: Context, statuses: StatusTable) -> AsyncIterator[None]:
    """
    End a call with the status of whatever HearthKVError the body raises.

    Args:
        context: The call.
        statuses: Status of every error that the body may raise; a subclass has its parent's.
    """
    try:
        yield
    except HearthKVError as error:
        await abort(context, statuses, error)


async def abort(context: Context, statuses: StatusTable, error: HearthKVError) -> None:
    """End a call with the status of an error, which the table must have."""
    code = _status_of(type(error), statuses)
    details = encode_status(code.value[0], str(error), reason_of(type(error)))
    await context.abort(code, str(error), ((DETAILS_TRAILER, details),))


def reason_of(error_type: type[HearthKVError]) -> str:
    """Return an error's stable reason: BadKeysError is BAD_KEYS."""
    words = re.findall(r"[A-Z][a-z]+|[A-Z]+(?=[A-Z]|$)", error_type.__name__.removesuffix("Error"))
    return "_".join(words).upper()


def _status_of(error_type: type[HearthKVError], statuses: StatusTable) -> grpc.StatusCode:
    for ancestor in error_type.__mro__:
        if issubclass(ancestor, HearthKVError) and ancestor in statuses:
            return statuses[ancestor]
    return grpc.StatusCode.INTERNAL


def check_free(host: str, port: int, *, choose: str) -> None:
    """
    Try an address with a plain socket: gRPC's own error does not say what is wrong.

    Args:
        host: A name or an address of this machine.
        port: 0 stands for any that is free.
        choose: The flag with which another address is chosen.

    Raises:
        StartupError: If it is in use, or not of this machine.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except OSError as error:
        raise StartupError(
            f"can't listen on {host}:{port}: {error.strerror}; stop what uses it, or choose "
            f"another with {choose}, port 0 for any free one"
        ) from error
