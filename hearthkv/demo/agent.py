"""
A coding agent that plays the scripted session before a cluster.

It does what a dispatcher does: ask any engine for the prompt's tokens, ask the router which node
holds their KV, and send the turn to the engine beside that node. The model's real answers become
part of the history; the results of tools come from the script.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hearthkv.core.clock import Clock
from hearthkv.core.errors import PeerError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.routing import CacheHint, NodeStatus, Route
from hearthkv.demo.engine_client import EngineClient, Tokenized
from hearthkv.demo.script import Message, message, opening, prompt_targets, step_message, steps_for
from hearthkv.demo.session_texts import SessionTexts
from hearthkv.demo.turn_record import TurnRecord

ANSWER_TOKENS_MAX = 24
"""Length of an answer. A small model says nothing worth more, and decoding is not the point."""

FOLLOW_UP_TOKENS = 32
"""Room for one follow-up and the frames of two messages."""


@dataclass(frozen=True, slots=True)
class SessionSize:
    """How long a session is."""

    tokens: int
    """Tokens of the last round's prompt."""

    rounds: int

    def within(self, context_tokens: int, follow_ups: int) -> "SessionSize":
        """Return the size that leaves room for the answers and some more turns."""
        room = follow_ups * (FOLLOW_UP_TOKENS + ANSWER_TOKENS_MAX) + ANSWER_TOKENS_MAX
        return replace(self, tokens=min(self.tokens, context_tokens - room))


class Router(Protocol):
    """What an agent asks of a router. `hearthkv.connect` gives one."""

    async def route(
        self,
        session_id: str,
        namespace: NamespaceSpec,
        tokens: Sequence[int],
        *,
        cache_hint: CacheHint | str,
    ) -> Route | None:
        """Choose the node for a turn; None where no router answers."""
        ...

    async def list_nodes(self) -> Sequence[NodeStatus]:
        """List all nodes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """What a session needs of the world."""

    router: Router
    engines: EngineClient
    engine_urls: Callable[[], Sequence[str]]
    """Says which engines are up."""

    texts: SessionTexts
    clock: Clock

    async def tokenize(self, messages: Sequence[Message]) -> Tokenized:
        """
        Return a prompt's tokens, from whichever engine answers.

        Raises:
            PeerError: If none does.
        """
        trouble: PeerError | None = None
        for url in self.engine_urls():
            try:
                return await self.engines.tokenize(url, messages, self.texts.tools)
            except PeerError as error:
                trouble = error
        raise trouble or PeerError("no engine is up")

    async def count(self, messages: Sequence[Message]) -> int:
        """Return how many tokens a prompt has."""
        return len((await self.tokenize(messages)).tokens)


class Session:
    """One session: its history, and its next turn."""

    def __init__(self, agent: Agent, session_id: str, hint: CacheHint) -> None:
        self.history: list[Message] = []
        self._agent = agent
        self._session_id = session_id
        self._hint = hint
        self._turns = 0

    async def play(self, size: SessionSize) -> AsyncIterator[TurnRecord]:
        """
        Play the script, and yield each turn when it is over.

        Raises:
            PeerError: If no engine answers.
        """
        texts, count = self._agent.texts, self._agent.count
        targets = prompt_targets(size.tokens, size.rounds)
        self.history = await opening(texts, targets[0], count)
        yield await self.turn()
        for step, target in zip(steps_for(texts, size.rounds), targets[1:], strict=True):
            self.history.append(await step_message(step, self.history, target, count))
            yield await self.turn()

    async def say(self, text: str) -> TurnRecord:
        """Let the user say something, and return the turn that answers it."""
        self.history.append(message("user", text))
        return await self.turn()

    async def turn(self) -> TurnRecord:
        """Let the model answer the history, and append its answer."""
        agent = self._agent
        prompt = await agent.tokenize(self.history)
        asked_s = agent.clock.now()
        route = await agent.router.route(
            self._session_id, prompt.namespace, prompt.tokens, cache_hint=self._hint
        )
        route_s = agent.clock.now() - asked_s
        url = self._engine_of(route)
        answer = await agent.engines.chat(
            url,
            self.history,
            agent.texts.tools,
            session_id=self._session_id,
            hint=self._hint,
            tokens_max=ANSWER_TOKENS_MAX,
        )
        self.history.append(message("assistant", answer.text))
        self._turns += 1
        return TurnRecord(
            round=self._turns,
            prompt_tokens=answer.prompt_tokens,
            ttft_s=answer.ttft_s,
            route_s=route_s,
            text=answer.text,
            cached=answer.cached,
            node_id=route.node.node_id if route else "",
            reason=route.reason.value if route else "",
            engine_url=url,
            miss=answer.miss,
            timings=answer.timings,
        )

    def _engine_of(self, route: Route | None) -> str:
        """The engine beside the node; any other one where no router has answered."""
        if route is not None and route.node.engine_url:
            return route.node.engine_url
        return self._agent.engine_urls()[0]
