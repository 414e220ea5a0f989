"""
All routers of a client, and the last list of nodes for when none answers. Not pure.

The first router is asked first, and the next one as well when it fails or takes its time: what
a turn waits for its placement is `route_s` in all, however many routers hang. A router that
failed is passed over for a while, so it costs that once. Names are resolved anew when a router
fails, because it may be that another one has its name by now.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from hearthkv.client.cluster_view import ClusterView
from hearthkv.client.outcome import MissReason
from hearthkv.client.peer_calls import PeerCalls
from hearthkv.client.router_client import RouterClient
from hearthkv.client.router_names import RouterNames
from hearthkv.client.settings import ClientSettings
from hearthkv.core.errors import PeerError, PeerRefusedError, PeerUnreachableError
from hearthkv.core.routing import Route, RouteQuery

Answer = TypeVar("Answer")

LATE_CALLS_MAX: Final = 64
"""Calls that go on when a turn has its placement: their failure is to be known. A call ends by
itself after `route_s`, and a router whose call failed gets no other for a while."""

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
        names: The routers; may be none.
        open_client: Gives the client of an address; the same one for the same address.
        close_client: Closes what belongs to an address that no name stands for any more.
        calls: The frame of the calls, which knows who is left alone.
        settings: Deadlines.
    """

    def __init__(
        self,
        names: RouterNames,
        open_client: Callable[[str], RouterClient],
        close_client: Callable[[str], Awaitable[None]],
        calls: PeerCalls,
        settings: ClientSettings,
    ) -> None:
        self.view = ClusterView()
        self._names = names
        self._open_client = open_client
        self._close_client = close_client
        self._calls = calls
        self._settings = settings
        self._clients = tuple(map(open_client, names.last_addresses()))
        self._resolving: asyncio.Task[None] | None = None
        self._resolved_s: float | None = None
        self._late: dict[asyncio.Task[Route], RouterClient] = {}
        self._watching: tuple[str, asyncio.Task[None]] | None = None

    async def close(self) -> None:
        """End what goes on by itself. May be called again."""
        tasks: set[asyncio.Task[Route] | asyncio.Task[None]] = set(self._late)
        if self._resolving is not None:
            tasks.add(self._resolving)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def place(self, query: RouteQuery) -> Placed | MissReason:
        """
        Choose the node for a turn, within `route_s`.

        If no router answers, the session is hashed onto the last list of nodes.
        """
        try:
            async with asyncio.timeout(self._settings.route_s):
                placed = await self._race(query)
        except TimeoutError:
            placed = MissReason.NO_ROUTER
        if placed is not MissReason.NO_ROUTER:
            return placed
        route = self.view.route(query.session_id, self._calls.skipped())
        return MissReason.NO_ROUTER if route is None else Placed(route, is_matched=False)

    async def ask_one(self, ask: Callable[[RouterClient], Awaitable[Answer]]) -> Answer:
        """
        Return the answer of the first router that gives one.

        Raises:
            PeerError: If none does; says why the last one did not, or why it was refused.
        """
        last_error: PeerError = PeerUnreachableError("no router is named, must be one at least")
        for client in await self._known():
            try:
                return await ask(client)
            except PeerError as error:
                self._doubt(client, error)
                if _is_refusal(error) or not _is_refusal(last_error):
                    last_error = error
        raise last_error

    async def ask_all(self, ask: Callable[[RouterClient], Awaitable[Answer]]) -> list[Answer]:
        """
        Return the answers of all routers that give one, in their order. All are asked at once.

        Raises:
            PeerError: If none does; says why the last one did not.
        """
        clients = await self._known()
        found = await asyncio.gather(*map(ask, clients), return_exceptions=True)
        answers: list[Answer] = []
        last_error: PeerError = PeerUnreachableError("no router is named, must be one at least")
        for client, answer in zip(clients, found, strict=True):
            if isinstance(answer, PeerError):
                self._doubt(client, answer)
                last_error = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                answers.append(answer)
        if not answers:
            raise last_error
        return answers

    async def watch(self) -> None:
        """Keep the list of nodes fresh, from whichever router answers, until cancelled."""
        while True:
            for client in await self._known():
                await self._watch_one(client)
            await asyncio.sleep(self._settings.watch_retry_s)

    async def _race(self, query: RouteQuery) -> Placed | MissReason:
        """Ask one router after the other until one answers, without waiting for those before."""
        has_no_node = False
        clients, late = await self._known(), list(self._late.values())
        to_ask = sorted(clients, key=late.__contains__)  # who owes an answer is asked last
        asked: dict[asyncio.Task[Route], RouterClient] = {}
        hedge_s = min(self._settings.hedge_s, self._settings.route_s / (len(to_ask) + 1))
        try:
            while to_ask or asked:
                if to_ask:
                    client = to_ask.pop(0)
                    asked[asyncio.create_task(client.route(query))] = client
                await asyncio.wait(
                    asked,
                    timeout=hedge_s if to_ask else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                # In the order in which they were asked, so that the first one counts.
                for task in [task for task in asked if task.done()]:
                    client = asked.pop(task)
                    try:
                        return Placed(task.result(), is_matched=True)
                    except PeerError as error:
                        self._doubt(client, error)
                        has_no_node = has_no_node or _is_no_node(error)
        finally:
            self._leave_behind(asked)
        return MissReason.NO_NODE if has_no_node else MissReason.NO_ROUTER

    def _leave_behind(self, asked: dict[asyncio.Task[Route], RouterClient]) -> None:
        """Let calls end by themselves, so that a router that hangs is known to."""
        for task, client in asked.items():
            if len(self._late) >= LATE_CALLS_MAX:
                task.cancel()
            self._late[task] = client
            task.add_done_callback(self._end_late)

    def _end_late(self, task: asyncio.Task[Route]) -> None:
        client = self._late.pop(task)
        if not task.cancelled() and isinstance(error := task.exception(), PeerError):
            self._doubt(client, error)

    async def _watch_one(self, client: RouterClient) -> None:
        """Follow one router's list of nodes until it ends, or the router is in doubt."""
        watching = asyncio.create_task(self._follow(client))
        self._watching = (client.address, watching)
        try:
            await asyncio.wait({watching})
        finally:
            self._watching = None
            watching.cancel()
            await asyncio.wait({watching})

    async def _follow(self, client: RouterClient) -> None:
        try:
            await client.watch(self.view.replace)
        except PeerError as error:
            self._doubt(client, error)  # noted by its frame; the next router is asked

    def _doubt(self, client: RouterClient, error: PeerError) -> None:
        """Draw the consequences of a failure: its list of nodes may be old, and its name too."""
        if _is_refusal(error):
            return
        watching = self._watching
        if watching is not None and watching[0] == client.address:
            watching[1].cancel()
        now = self._calls.clock.now()
        is_due = self._resolved_s is None or now - self._resolved_s >= self._settings.watch_retry_s
        if not self._names.is_fixed and is_due:
            self._resolve()

    async def _known(self) -> Sequence[RouterClient]:
        """The routers; waits for their addresses where none is known."""
        if not self._clients and not self._names.is_fixed:
            await asyncio.shield(self._resolve())
        return self._clients

    def _resolve(self) -> asyncio.Task[None]:
        """Resolve all names, once at a time: a resolver that hangs is not asked twice."""
        if self._resolving is None or self._resolving.done():
            self._resolving = asyncio.create_task(self._take_addresses())
        return self._resolving

    async def _take_addresses(self) -> None:
        addresses = await self._names.addresses()
        self._resolved_s = self._calls.clock.now()
        before = {client.address: client for client in self._clients}
        self._clients = tuple(
            before.pop(address) if address in before else self._open_client(address)
            for address in addresses
        )
        for address in before:
            with suppress(PeerError):
                await self._close_client(address)


def _is_refusal(error: PeerError) -> bool:
    return isinstance(error, PeerRefusedError)


def _is_no_node(error: PeerError) -> bool:
    return isinstance(error, PeerRefusedError) and error.status == _NO_NODE_STATUS
