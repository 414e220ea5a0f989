"""Serves fake routers and nodes on ports of their own, in the test's event loop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from grpc import aio

from hearthkv.v1.cache_node_pb2_grpc import CacheNodeServicer, add_CacheNodeServicer_to_server
from hearthkv.v1.router_pb2_grpc import RouterServicer, add_RouterServicer_to_server


@asynccontextmanager
async def serving(servicer: RouterServicer | CacheNodeServicer, address: str = "127.0.0.1:0"):
    """Serve until the block is left; gives the address."""
    server = aio.server()
    if isinstance(servicer, RouterServicer):
        add_RouterServicer_to_server(servicer, server)
    else:
        add_CacheNodeServicer_to_server(servicer, server)
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(grace=None)


@asynccontextmanager
async def a_free_address() -> AsyncIterator[str]:
    """An address at which nobody listens: the port is bound, and not opened."""
    import socket  # noqa: PLC0415

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"
