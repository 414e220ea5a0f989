"""The client itself: `connect` gives a `HearthKV`, which begins turns. Not pure."""

import asyncio
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from hearthkv.client.attachments import Attachments
from hearthkv.client.channels import Channels
from hearthkv.client.choices import checked_choice
from hearthkv.client.direct_calls import DirectCalls
from hearthkv.client.direct_writer import DirectWriter
from hearthkv.client.key_chains import KeyChains
from hearthkv.client.load_rates import LoadRates
from hearthkv.client.loader import Loader
from hearthkv.client.node_client import NodeClient
from hearthkv.client.outcome import MissReason
from hearthkv.client.peer_calls import PeerCalls
from hearthkv.client.peers import Peers, check_address
from hearthkv.client.router_client import RouterClient
from hearthkv.client.router_names import RouterNames
from hearthkv.client.routers import Routers
from hearthkv.client.saver import Saver
from hearthkv.client.seating import route_query, sit_at, sit_where_placed
from hearthkv.client.settings import ClientSettings
from hearthkv.client.stats import ClientStats
from hearthkv.client.turn import Prompt, Turn
from hearthkv.codec.router import SESSIONS_LISTED_MAX
from hearthkv.core.block_io import (
    DropTarget,
    KeysQuery,
    NodeDescription,
    Pinned,
    PinQuery,
    WriteStart,
)
from hearthkv.core.block_key import KeyChain, Tokens, pack_tokens
from hearthkv.core.clock import Clock, SystemClock
from hearthkv.core.errors import BadInputError
from hearthkv.core.namespace import ModelNamespace, NamespaceSpec
from hearthkv.core.routing import (
    CacheHint,
    NodeMatch,
    NodeStatus,
    Route,
    SessionStatus,
)
from hearthkv.core.session_id import NodeId, check_node_id, check_session_id
from hearthkv.telemetry import NoMeters, Telemetry

Namespace = ModelNamespace | NamespaceSpec


def connect(
    routers: str | Sequence[str] = (),
    *,
    settings: ClientSettings | None = None,
    telemetry: Telemetry | None = None,
    clock: Clock | None = None,
) -> "HearthKV":
    """
    Return a client. Nothing is contacted before it is used.

    Args:
        routers: The routers, in the order in which to ask them: addresses, or DNS names that
            may stand for several; none at all for an engine that names its node in every turn.
        settings: Deadlines and limits; None for the usual ones.
        telemetry: Where events go; None: to the log `hearthkv.client`, and to no metrics.
        clock: What tells the time; None: the machine's clock.

    Raises:
        BadInputError: If an address is neither `host:port` nor `unix:path`.
    """
    addresses = (routers,) if isinstance(routers, str) else tuple(routers)
    return HearthKV(
        [check_address(address) for address in addresses],
        settings or ClientSettings(),
        telemetry or Telemetry(logging.getLogger("hearthkv.client"), NoMeters()),
        clock or SystemClock(),
    )


class HearthKV:
    """
    A client of one cluster. Made by `connect`; for one event loop.

    `begin_turn` and `route` never raise for any trouble of the cache (I5). The calls for people
    and tools, from `list_nodes` on, have nothing else to answer, and raise PeerError.
    """

    def __init__(
        self, routers: Sequence[str], settings: ClientSettings, telemetry: Telemetry, clock: Clock
    ) -> None:
        self.stats = ClientStats()
        self._settings = settings
        self._router_names = RouterNames(routers)
        self._channels = Channels()
        peers = Peers(settings.cooldown_s, settings.cooldown_s_max)
        self._calls = PeerCalls(peers, clock, telemetry)
        self._chains = KeyChains(settings.chains_max)
        self._attachments = Attachments(
            self._direct_calls,
            is_enabled=settings.direct_path,
            stall_s=settings.stall_s,
            clock=clock,
            telemetry=telemetry,
        )
        self._loader = Loader(self._attachments, LoadRates(), settings, telemetry)
        self._saver = Saver(settings, DirectWriter(self._attachments, stall_s=settings.stall_s))
        self._routers: Routers | None = None
        self._watch: asyncio.Task[None] | None = None
        self._nodes: dict[str, NodeClient] = {}
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self._open_routers()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give up saves that are not done, and close all connections. May be called again."""
        self._is_closed = True
        self._calls.close()
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})
        if self._routers is not None:
            await self._routers.close()
        await self._saver.close()
        self._attachments.close()
        await self._channels.close()

    async def begin_turn(
        self,
        session_id: str,
        namespace: Namespace,
        tokens: Tokens,
        *,
        cache_hint: CacheHint | str = CacheHint.NONE,
        node: str | None = None,
    ) -> Turn:
        """
        Begin one turn of a session: find its node, and how much of its prompt lies there.

        Args:
            session_id: The session; compared exactly.
            namespace: What must agree before KV may be reused.
            tokens: The whole prompt; best as uint32. A turn that extends the session's last one
                hashes only what is new.
            cache_hint: `reuse`: the node with the longest prefix; `none`: the session's own
                node; `bypass`: read nothing, save nothing, ask no node.
            node: Address of a node to talk to, for an engine with a node beside it; the routers
                are not asked then.

        Raises:
            BadInputError: If an argument can't be used, or the client is closed.
        """
        hint = checked_choice(CacheHint, "cache_hint", cache_hint)
        prompt = self._prompt(session_id, namespace, tokens)
        if node is None:
            query = route_query(prompt, hint)
            placed = await self._open_routers().place(query)
            seat, client = await sit_where_placed(prompt, query, placed, self._node)
        else:
            seat, client = await sit_at(prompt, hint, self._node(check_address(node)))
        start = WriteStart(prompt.spec, prompt.session_id)
        saves = self._saver.new_run(client, start) if client else None
        self.stats.count_turn(prompt.tokens, seat.miss)
        return Turn(
            prompt,
            seat,
            client,
            saves,
            loader=self._loader,
            settings=self._settings,
            stats=self.stats,
        )

    async def route(
        self,
        session_id: str,
        namespace: Namespace,
        tokens: Tokens,
        *,
        cache_hint: CacheHint | str = CacheHint.NONE,
    ) -> Route | None:
        """
        Say where a turn should run, without beginning it: for dispatchers before the engines.

        Returns:
            The node; None where no router answers and no list of nodes is known, or no node is
            live. A route that the client had to hash by itself says that nothing matched, and
            the match of a prompt of over 1,024 blocks may be short by less than a hundredth.

        Raises:
            BadInputError: If an argument can't be used, or the client is closed.
        """
        hint = checked_choice(CacheHint, "cache_hint", cache_hint)
        prompt = self._prompt(session_id, namespace, tokens)
        placed = await self._open_routers().place(route_query(prompt, hint))
        return None if isinstance(placed, MissReason) else placed.route

    async def lookup(self, namespace: Namespace, tokens: Tokens) -> list[NodeMatch]:
        """Say which nodes hold how much of a prompt, longest first. Raises PeerError."""
        query = _keys_query(namespace, tokens)
        return await self._open_routers().ask_one(lambda router: router.lookup(query))

    async def list_nodes(self) -> list[NodeStatus]:
        """List the nodes with their load. Raises PeerError."""
        return await self._open_routers().ask_one(lambda router: router.list_nodes())

    async def list_sessions(self, limit: int = 0) -> list[SessionStatus]:
        """
        List up to `limit` sessions, last used first; 0: the usual 100.

        Raises:
            BadInputError: If more are asked for than a router lists.
            PeerError: If no router answers.
        """
        if not 0 <= limit <= SESSIONS_LISTED_MAX:
            raise BadInputError(f"limit is {limit}, must be in 0..{SESSIONS_LISTED_MAX}")
        return await self._open_routers().ask_one(lambda router: router.list_sessions(limit))

    async def end_session(self, session_id: str) -> NodeId | None:
        """
        Have every router forget a session; return the node of its last turn, None if unknown.

        Raises:
            BadInputError: If the id can't be used.
            PeerError: If no router answers.
        """
        session = check_session_id(session_id)
        self._chains.forget(session)
        answers = await self._open_routers().ask_all(lambda router: router.end_session(session))
        return next((node_id for node_id in answers if node_id is not None), None)

    async def drain_node(self, node_id: str, *, cancel: bool = False) -> int:
        """
        Have a node hand its sessions to other nodes and take no new ones, or stay after all.

        All routers are asked, until one knows the node; the others hear of it from the node.

        Returns:
            Sessions whose last turn was there, as that router knows them.

        Raises:
            BadInputError: If the name can't be that of a node.
            PeerError: If no router answers, or none knows the node.
        """
        node = check_node_id(node_id)
        return await self._open_routers().ask_one(
            lambda router: router.drain_node(node, is_cancelled=cancel)
        )

    async def describe(self, node: str) -> NodeDescription:
        """Return a node's description of itself. Raises PeerError."""
        return await self._node(check_address(node)).describe()

    async def prefetch(self, node: str, namespace: Namespace, tokens: Tokens) -> int:
        """Have a prompt's blocks lifted to DRAM; return how many will be. Raises PeerError."""
        return await self._node(check_address(node)).prefetch(_keys_query(namespace, tokens))

    async def pin(self, node: str, namespace: Namespace, tokens: Tokens, *, ttl_s: float) -> Pinned:
        """
        Keep a prompt's blocks from eviction for `ttl_s` seconds, one hour at most.

        Raises:
            BadInputError: If `ttl_s` is not over 0 and at most an hour.
            PeerError: If the node does not do so.
        """
        query = _keys_query(namespace, tokens)
        pin = PinQuery(query.namespace_id, query.keys, ttl_s)
        return await self._node(check_address(node)).pin(pin)

    async def unpin(self, node: str, pin_id: str) -> int:
        """End a pin before its time; return how many blocks it held. Raises PeerError."""
        return await self._node(check_address(node)).unpin(pin_id)

    async def drop(self, node: str, target: DropTarget) -> int:
        """Have blocks forgotten; return how many were. Raises PeerError."""
        return await self._node(check_address(node)).drop(target)

    def _prompt(self, session_id: str, namespace: Namespace, tokens: Tokens) -> Prompt:
        session, spec = check_session_id(session_id), _spec_of(namespace)
        chain = self._chains.chain(session, spec)
        packed = pack_tokens(tokens)
        keys = chain.keys_of_packed(packed)
        return Prompt(session, spec, chain, packed, keys, chain.settled_blocks)

    def _open_routers(self) -> Routers:
        """The routers; the first call, inside the event loop, opens them and starts the watch."""
        self._check_open()
        if self._routers is None:
            self._routers = Routers(
                self._router_names,
                self._router,
                self._channels.close_one,
                self._calls,
                self._settings,
            )
            if self._router_names:
                self._watch = asyncio.create_task(self._routers.watch(), name="hearthkv-watch")
        return self._routers

    def _router(self, address: str) -> RouterClient:
        channel = self._channels.channel(address)
        return RouterClient(address, channel, self._calls, self._settings)

    def _node(self, address: str) -> NodeClient:
        self._check_open()
        if address not in self._nodes:
            channel = self._channels.channel(address)
            self._nodes[address] = NodeClient(address, channel, self._calls, self._settings)
        return self._nodes[address]

    def _direct_calls(self, address: str) -> DirectCalls:
        channel = self._channels.channel(address)
        return DirectCalls(address, channel, self._calls, self._settings)

    def _check_open(self) -> None:
        if self._is_closed:
            raise BadInputError("client is closed, must be open")


def _spec_of(namespace: Namespace) -> NamespaceSpec:
    return namespace.spec if isinstance(namespace, ModelNamespace) else namespace


def _keys_query(namespace: Namespace, tokens: Tokens) -> KeysQuery:
    spec = _spec_of(namespace)
    keys = KeyChain(spec.namespace_id, spec.block_size).keys_of(tokens)
    return KeysQuery(spec.namespace_id, keys)
