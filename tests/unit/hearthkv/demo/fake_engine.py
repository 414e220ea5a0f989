"""An engine without a model: it answers at once, and counts three characters as a token."""

import json
from collections.abc import Sequence

from aiohttp import web

from hearthkv.core.clock import ManualClock
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.routing import (
    CacheHint,
    NodeEndpoint,
    NodeLoad,
    NodeState,
    NodeStatus,
    PlacementReason,
    Route,
)
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import TierCounts
from hearthkv.demo.cluster_plan import LocalNode

NAMESPACE = NamespaceSpec(bytes(16), 16, 737_280)
CONTEXT_TOKENS = 8192
SECONDS_A_TOKEN = 0.01


class FakeEngine:
    """Serves /tokenize and /v1/chat/completions, and remembers the prompts of each session."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.requests: list[dict[str, object]] = []
        self.lines: list[str] | None = None  # sent instead of an answer
        self.status = 200
        self._held: dict[str, int] = {}

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_post("/v1/chat/completions", self._chat)
        return app

    def forget(self) -> None:
        self._held.clear()

    async def _tokenize(self, request: web.Request) -> web.Response:
        tokens = _tokens(await request.json())
        return web.json_response(
            {
                "count": len(tokens),
                "tokens": tokens,
                "max_model_len": CONTEXT_TOKENS,
                "hearthkv": {
                    "namespace_id": NAMESPACE.namespace_id.hex(),
                    "block_size": NAMESPACE.block_size,
                    "block_bytes": NAMESPACE.block_bytes,
                },
            },
            status=self.status,
        )

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for line in self.lines if self.lines is not None else self._answer(body):
            await response.write(line.encode() + b"\n\n")
        await response.write_eof()
        return response

    def _answer(self, body: dict[str, dict[str, str]]) -> Sequence[str]:
        session_id, hint = body["metadata"]["session_id"], body["metadata"]["cache_hint"]
        count = len(_tokens(body))
        cached = self._held.get(session_id, 0) if hint == "reuse" else 0
        if hint == "reuse":
            self._held[session_id] = count // 16 * 16
        self.clock.advance((count - cached) * SECONDS_A_TOKEN)
        return [
            event(content=""),
            event(content=f"Answer {len(body['messages'])}"),
            event(content=".", finish_reason="stop"),
            last_event(count, cached),
            "data: [DONE]",
        ]


def event(finish_reason: str | None = None, **delta: str) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return "data: " + json.dumps({"choices": [choice]})


def last_event(prompt_tokens: int, cached: int) -> str:
    return "data: " + json.dumps(
        {
            "choices": [],
            "usage": {"prompt_tokens": prompt_tokens},
            "hearthkv": {
                "cached_by_tier": {"hbm": 0, "dram": cached, "ssd": 0},
                "miss": None if cached else "not_held",
                "timings": {"compute_s": 1},
            },
        }
    )


def _tokens(body: dict[str, object]) -> list[int]:
    tools = json.dumps(body["tools"])
    assert isinstance(body["messages"], list)
    texts = [message["content"] for message in body["messages"]]
    return [0] * (3 + len(tools) // 5 + sum(4 + len(text) // 3 for text in texts))


class FakeRouter:
    """A router that sends every session to the first live node, and says `session` after."""

    def __init__(self, nodes: Sequence[LocalNode], clock: ManualClock) -> None:
        self.seconds_a_look = 0.0  # what listing the nodes takes
        self._clock = clock
        self.states = {node.name: NodeState.LIVE for node in nodes}
        self.is_up = True
        self._nodes = nodes
        self._node_of: dict[str, str] = {}

    async def route(
        self,
        session_id: str,
        namespace: NamespaceSpec,
        tokens: Sequence[int],
        *,
        cache_hint: CacheHint | str,
    ) -> Route | None:
        if not self.is_up:
            return None
        assert namespace == NAMESPACE
        assert tokens
        live = [node for node in self._nodes if self.states[node.name] is NodeState.LIVE]
        before = self._node_of.get(session_id)
        self._node_of[session_id] = live[0].name
        reason = {None: PlacementReason.HOME, live[0].name: PlacementReason.SESSION}.get(
            before, PlacementReason.FAILOVER
        )
        return Route(self._endpoint(live[0]), TierCounts(), NodeId(live[0].name), reason)

    async def list_nodes(self) -> Sequence[NodeStatus]:
        self._clock.advance(self.seconds_a_look)
        return [
            NodeStatus(self._endpoint(node), NodeLoad(), 0, 0, 0.0)
            for node in self._nodes
            if node.name in self.states
        ]

    def _endpoint(self, node: LocalNode) -> NodeEndpoint:
        state = self.states[node.name]
        return NodeEndpoint(NodeId(node.name), node.address, node.engine_url, state=state)
