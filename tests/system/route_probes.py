"""
Bare calls of Route to every router, for ever, each told as a line of JSON. Not pure.

A process of its own beside the load, so that a call is not late because a session is busy. The
sessions that it names are its own, and their whole prompt is the head that all prompts share: the
routers' answers to others are what they would be without it.
"""

import asyncio
import time
from itertools import count

from grpc import aio

from hearthkv.core.block_key import KeyChain
from hearthkv.v1 import block_pb2, router_pb2
from hearthkv.v1.router_pb2_grpc import RouterStub
from tests.system.growing_session import NAMESPACE, RECONNECT_OPTIONS, ROUTERS, head
from tests.system.load_records import RouteRecord, tell

ROUTE_S = 1.0
"""Deadline of a call."""

PAUSE_S = 0.02
SESSIONS = 16


async def main() -> None:
    """Ask both routers at an even pace until killed."""
    async with asyncio.TaskGroup() as tasks:
        for router in ROUTERS:
            tasks.create_task(probe(router))


async def probe(router: str) -> None:
    """Ask one router for places."""
    keys = KeyChain(NAMESPACE.spec.namespace_id, NAMESPACE.block_size).keys_of(head())
    request = router_pb2.RouteRequest(
        namespace_id=NAMESPACE.spec.namespace_id,
        keys=block_pb2.PackedKeys(keys=keys.packed, key_width=keys.width),
        cache_hint=router_pb2.CACHE_HINT_NONE,
        prompt_tokens=len(head()),
        block_size=NAMESPACE.block_size,
    )
    async with aio.insecure_channel(f"{router}:7400", options=RECONNECT_OPTIONS) as channel:
        stub = RouterStub(channel)
        for number in count():
            request.session_id = f"probe-{number % SESSIONS}"
            began_s, start_s = time.time(), time.monotonic()
            node = failure = ""
            try:
                answer = await stub.Route(request, timeout=ROUTE_S)
                node = answer.node.node_id
            except aio.AioRpcError as error:
                failure = error.code().name
            tell(RouteRecord(router, began_s, time.monotonic() - start_s, node, failure))
            await asyncio.sleep(PAUSE_S)


if __name__ == "__main__":
    asyncio.run(main())
