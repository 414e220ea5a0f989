"""
A router in a process of its own, whose index is filled beforehand. Not pure.

`python -m bench.routing.router_child NODES BLOCKS`

Says its addresses and what a block costs; then, for each length of a prompt that it is asked
about, how long a decision takes: decoding, index, placement and encoding, without gRPC.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median, quantiles

import grpc
from grpc import aio

from bench.datapath import child_side
from bench.datapath.child_side import Message
from bench.routing.workload import Session, Workload
from hearthkv.codec import router as codec
from hearthkv.core.clock import SystemClock
from hearthkv.core.routing import NodeHello, NodeLoad
from hearthkv.v1 import router_pb2
from router.server import RunningRouter, running
from router.settings import RouterSettings

EMPTY_CALL = "/bench.Empty/Call"
FOREVER_S = 1e9
DECISIONS = 1_000


async def main(workload: Workload) -> None:
    """Serve until stdin ends."""
    replies = child_side.replies()
    settings = RouterSettings(
        listen="127.0.0.1:0",
        metrics_port=0,
        nodes_max=workload.nodes,
        index_keys_max=2 * workload.blocks + 100 * workload.nodes,
        suspect_s=FOREVER_S,
        lease_s=FOREVER_S,
        drain_s=0,
    )
    async with running(settings, SystemClock()) as router:
        empty = aio.server()
        empty.add_generic_rpc_handlers((_empty_handler(),))
        empty_port = empty.add_insecure_port("127.0.0.1:0")
        await empty.start()
        index_bytes = fill(router, workload)
        child_side.say(
            replies,
            {
                "address": router.address,
                "empty": f"127.0.0.1:{empty_port}",
                "index_bytes": index_bytes,
                "index_keys": router.cluster.index.keys,
            },
        )
        sessions = workload.sessions()
        while line := await asyncio.to_thread(sys.stdin.readline):
            child_side.say(replies, decide(router, sessions, json.loads(line)["prompt_tokens"]))
        await empty.stop(None)


def fill(router: RunningRouter, workload: Workload) -> int:
    """Let the nodes join and say what they hold; return the bytes that the process grew by."""
    streams = [router.watch.open() for _ in range(workload.nodes)]
    for node, stream in enumerate(streams):
        router.watch.hear(stream, NodeHello(workload.endpoint(node)))
    gc.collect()
    before = _process_bytes()
    for node, part in workload.snapshots():
        router.watch.hear(streams[node], part)
    gc.collect()
    grown = _process_bytes() - before
    for stream in streams:
        router.watch.hear(stream, NodeLoad())
    return grown


def decide(
    router: RunningRouter, sessions: Mapping[int, list[Session]], prompt_tokens: int
) -> Message:
    """Take decisions on turns of one length, of sessions that are known and of new ones."""
    queries = [session.query() for session in sessions[prompt_tokens][:50]]
    known = [codec.encode_route_request(query) for query in queries]
    answer: dict[str, int | str | list[int]] = {}
    for name, is_new in (("known", False), ("new", True)):
        taken_ns: list[int] = []
        for number in range(DECISIONS):
            request = router_pb2.RouteRequest.FromString(
                known[number % len(known)].SerializeToString()
            )
            if is_new:
                request.session_id = f"new-{prompt_tokens}-{number}"
            started_ns = time.perf_counter_ns()
            routed = router.cluster.route(codec.decode_route_request(request), time.monotonic())
            codec.encode_route_response(routed.route)
            taken_ns.append(time.perf_counter_ns() - started_ns)
        answer[name] = round(median(taken_ns))
        answer[f"{name}_p99"] = round(quantiles(taken_ns, n=100)[98])
    return answer


def _empty_handler() -> grpc.GenericRpcHandler:
    async def call(_: bytes, __: aio.ServicerContext[bytes, bytes]) -> bytes:
        return b""

    handlers = {"Call": grpc.unary_unary_rpc_method_handler(call, bytes, bytes)}
    return grpc.method_handlers_generic_handler("bench.Empty", handlers)


def _process_bytes() -> int:
    resident_pages = Path("/proc/self/statm").read_text().split()[1]
    return int(resident_pages) * 4096


if __name__ == "__main__":
    asyncio.run(main(Workload(int(sys.argv[1]), int(sys.argv[2]))))
