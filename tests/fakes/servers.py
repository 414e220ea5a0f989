"""Serves fake routers and nodes on ports of their own, in the test's event loop."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from grpc import aio

from hearthkv.v1.cache_node_pb2_grpc import CacheNodeServicer, add_CacheNodeServicer_to_server
from hearthkv.v1.direct_path_pb2_grpc import (
    DirectPathServicer,
    add_DirectPathServicer_to_server,
)
from hearthkv.v1.router_pb2_grpc import RouterServicer, add_RouterServicer_to_server


@asynccontextmanager
async def serving(
    servicer: RouterServicer | CacheNodeServicer,
    address: str = "127.0.0.1:0",
    *,
    direct: DirectPathServicer | None = None,
) -> AsyncIterator[str]:
    """Serve until the block is left, a node with a direct path or without; gives the address."""
    server = aio.server()
    if isinstance(servicer, RouterServicer):
        add_RouterServicer_to_server(servicer, server)
    else:
        add_CacheNodeServicer_to_server(servicer, server)
    if direct is not None:
        add_DirectPathServicer_to_server(direct, server)
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield f"{address.rpartition(':')[0]}:{port}"
    finally:
        await server.stop(grace=None)


@contextmanager
def dead_address() -> Iterator[str]:
    """An address that refuses connections: the port is held, and nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@contextmanager
def silent_address() -> Iterator[str]:
    """An address that takes connections and never says a word."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
