"""All routers of a client: one after the other, then the last list of nodes. Not pure."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hearthkv.client.cluster_view import ClusterView
from hearthkv.client.outcome import MissReason
from hearthkv.client.peer_calls import PeerCalls
from hearthkv.client.router_client import RouterClient
from hearthkv.core.errors import PeerError, PeerRefusedError, PeerUnreachableError
from hearthkv.core.routing import Route, RouteQuery

Answer = TypeVar("Answer")

_NO_NODE_STATUS = "UNAVAILABLE"
"""Status with which a router says that no node is live."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a turn goes."""

    route: Route
    is_matched: bool
    """Whether `route.matched` is known; a route by hash knows nothing of it."""


class Routers:
    """
    Asks the routers in the order in which they were named.

    Args:
        clients: The routers; may be empty.
        calls: The frame of the calls, which knows who is left alone.
        watch_retry_s: Seconds between two rounds of the watch.
    """

    def __init__(
        self, clients: Sequence[RouterClient], calls: PeerCalls, watch_retry_s: float
    ) -> None:
        self.view = ClusterView()
        self._clients = tuple(clients)
        self._calls = calls
        self._watch_retry_s = watch_retry_s

    async def place(self, query: RouteQuery) -> Placed | MissReason:
        """
        Choose the node for a turn.

        A router that is gone costs its deadline once and is passed over from then on. If none
        answers, the session is hashed onto the last list of nodes.
        """
        has_no_node = False
        for client in self._clients:
            try:
                return Placed(await client.route(query), is_matched=True)
            except PeerRefusedError as error:
                has_no_node = has_no_node or error.status == _NO_NODE_STATUS
            except PeerError:
                continue
        if has_no_node:
            return MissReason.NO_NODE
        route = self.view.route(query.session_id, self._calls.skipped())
        return MissReason.NO_ROUTER if route is None else Placed(route, is_matched=False)

    async def ask_one(self, ask: Callable[[RouterClient], Awaitable[Answer]]) -> Answer:
        """
        Return the answer of the first router that gives one.

        Raises:
            PeerError: If none does; says why the last one did not.
        """
        last_error: PeerError = PeerUnreachableError("no router is named, must be one at least")
        for client in self._clients:
            try:
                return await ask(client)
            except PeerError as error:
                last_error = error
        raise last_error

    async def ask_all(self, ask: Callable[[RouterClient], Awaitable[Answer]]) -> list[Answer]:
        """
        Return the answers of all routers that give one, in their order.

        Raises:
            PeerError: If none does; says why the last one did not.
        """
        answers: list[Answer] = []
        last_error: PeerError = PeerUnreachableError("no router is named, must be one at least")
        for client in self._clients:
            try:
                answers.append(await ask(client))
            except PeerError as error:
                last_error = error
        if not answers:
            raise last_error
        return answers

    async def watch(self) -> None:
        """Keep the list of nodes fresh, from whichever router answers, until cancelled."""
        while True:
            for client in self._clients:
                try:
                    await client.watch(self.view.replace)
                except PeerError:
                    continue  # noted by its frame; the next router is asked
            await asyncio.sleep(self._watch_retry_s)
