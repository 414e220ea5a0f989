"""Leaving: the node hands what it holds to other nodes, and tells routers which sessions moved."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from cachenode.catalog import Catalog
from cachenode.handoffs import Handoff, Handoffs
from cachenode.lineages import Estate
from cachenode.move_events import (
    DrainBegun,
    DrainCancelled,
    DrainEnded,
    SessionHandedOver,
    show_draining,
)
from cachenode.moved_sessions import MovedSessions
from cachenode.peer_nodes import OpenPeer, PeerNode
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.clock import Clock
from hearthkv.core.errors import PeerError
from hearthkv.core.pulls import PullEnd, PullQuery
from hearthkv.core.routing import DrainOrder, NodeEndpoint
from hearthkv.core.session_id import SessionId
from hearthkv.telemetry import Telemetry

LOOK_EVERY_S: Final = 0.2
"""Seconds between two looks at what is left, once nothing is."""

HANDOFFS_MAX: Final = 4
"""Sessions that are handed over at once."""

ROUND_MAX: Final = 64
"""Sessions that are handed over before the list is made anew, hottest first."""

ROUND_S: Final = 2.0
"""Seconds after which a round takes no further session. Between rounds the peers are asked for
anew, and sessions that are whole elsewhere move."""

PULL_S: Final = 60.0
"""Seconds that a node gets to fetch one prefix."""

NEWS_S: Final = 5.0
"""Seconds without news of it after which a pull is given up, and its node passed over: one that
hangs breaks no call."""

LONELY_S: Final = 3.0
"""Seconds without a peer after which there is none. A router that was started again lists nobody,
or does not answer, until the nodes have joined it anew, which takes them a second or two."""

FindPeers = Callable[[], Awaitable[Sequence[NodeEndpoint]]]
"""Lists the nodes that take sessions, without this one; raises PeerError if no router answers."""


async def no_peers() -> Sequence[NodeEndpoint]:
    """List the peers of a node that knows no router: none."""
    return ()


class Drain:
    """
    Hands sessions over while turns go on, and says when the node may leave.

    Args:
        catalog: What is held.
        own_address: Where other nodes reach this one, host:port.
        open_peer: The way to other nodes.
        find_peers: Who they are.
        is_busy: Whether calls or turns are under way here, whose blocks are yet to be written.
        has_turn: Whether a turn of this session is.
        clock: The time.
        tasks: Owns the work.
        telemetry: Is told what happens.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        own_address: str,
        open_peer: OpenPeer,
        find_peers: FindPeers,
        is_busy: Callable[[], bool],
        has_turn: Callable[[SessionId], bool],
        clock: Clock,
        tasks: asyncio.TaskGroup,
        telemetry: Telemetry,
    ) -> None:
        self.moved = MovedSessions()
        """The sessions that other nodes have now."""

        self._catalog = catalog
        self._own_address = own_address
        self._open_peer = open_peer
        self._find_peers = find_peers
        self._is_busy = is_busy
        self._has_turn = has_turn
        self._clock = clock
        self._tasks = tasks
        self._telemetry = telemetry
        self._handoffs = Handoffs()
        self._peers: Sequence[NodeEndpoint] = ()
        self._peers_seen_s = 0.0
        self._work: asyncio.Task[None] | None = None
        self._may_leave = asyncio.Event()

    @property
    def is_draining(self) -> bool:
        """Whether the node is about to leave."""
        return self._work is not None

    def follow(self, order: DrainOrder) -> int:
        """Begin to leave, or stay after all; return how many sessions are not handed over."""
        if order.is_cancelled:
            self.cancel()
        else:
            self.begin()
        return self.sessions_left()

    def begin(self) -> None:
        """Begin to hand over; begun already, it goes on."""
        if self._work is not None:
            return
        self._handoffs = Handoffs()
        self._peers_seen_s = self._clock.now()
        self._may_leave.clear()
        self._work = self._tasks.create_task(self._hand_over_for_ever())
        show_draining(self._telemetry.meters, is_draining=True)
        self._telemetry.emit(DrainBegun(self.sessions_left()))

    def cancel(self) -> None:
        """Stay: what was handed over is on both nodes, and what was not is here alone."""
        if self._work is not None:
            self.stop()
            self.moved.clear()
            self._telemetry.emit(DrainCancelled())

    def stop(self) -> None:
        """End the work."""
        if self._work is not None:
            self._work.cancel()
            self._work = None
            self._may_leave.set()
            show_draining(self._telemetry.meters, is_draining=False)

    async def leave(self, grace_s: float) -> None:
        """Hand everything over, and return when that is done, or `grace_s` is over."""
        self.begin()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._may_leave.wait()
        self._telemetry.emit(DrainEnded(self.sessions_left(), len(self._peers)))

    def sessions_left(self) -> int:
        """How many sessions have blocks that are not whole on another node."""
        owned = (estate for estate in self._catalog.estates() if estate.is_owned)
        return sum(1 for _ in self._handoffs.left(owned, self._peers))

    async def _hand_over_for_ever(self) -> None:
        while True:
            with suppress(PeerError):  # the frame of the call took note; the last list is as good
                self._peers = await self._find_peers()
            if self._peers:
                self._peers_seen_s = self._clock.now()
            estates = list(self._catalog.estates())
            self._handoffs.prune(estates)
            self._flip_whole(estates)
            if self._is_all_done(estates):
                self._may_leave.set()
            else:
                self._may_leave.clear()
            if not await self._hand_over_some(estates):
                await asyncio.sleep(LOOK_EVERY_S)

    def _is_all_done(self, estates: Sequence[Estate]) -> bool:
        if not self._peers and self._clock.now() - self._peers_seen_s >= LONELY_S:
            return True  # there is nobody to hand anything to
        is_left = any(self._handoffs.left(estates, self._peers))
        return not is_left and not self._is_busy() and self.moved.is_told

    async def _hand_over_some(self, estates: Sequence[Estate]) -> bool:
        """Hand the hottest sessions over that are not; return whether any was taken."""
        planned = self._handoffs.plan(estates, self._peers, self._clock.now())
        round_ = list(islice(planned, ROUND_MAX))
        queue, over_s = iter(round_), self._clock.now() + ROUND_S

        async def work() -> int:
            taken = 0
            for handoff in queue:  # each worker takes the next one
                taken += await self._hand_over(handoff)
                if self._clock.now() >= over_s:
                    break
            return taken

        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(work()) for _ in range(min(HANDOFFS_MAX, len(round_)))]
        return any(worker.result() for worker in workers)

    async def _hand_over(self, handoff: Handoff) -> bool:
        """Have one session fetched by its next home; return whether all of it was."""
        estate, target = handoff.estate, handoff.target
        end, blocks = PullEnd.COMPLETE, 0
        try:
            async with self._open_peer(target.address) as peer:
                for tip in estate.tips:
                    keys = self._catalog.lineage(tip.namespace_id, tip.key)
                    if keys and end is PullEnd.COMPLETE:  # else it went meanwhile
                        end = await self._have_pulled(peer, estate, tip.namespace_id, keys)
                        blocks += len(keys)
        except (PeerError, TimeoutError):
            end = PullEnd.UNAVAILABLE
        self._telemetry.emit(SessionHandedOver(target.node_id, end, blocks))
        if end is PullEnd.COMPLETE:
            self._handoffs.complete(handoff)
        elif end is not PullEnd.BUSY:
            self._handoffs.refuse(handoff, self._clock.now())
        return end is PullEnd.COMPLETE

    async def _have_pulled(
        self, peer: PeerNode, estate: Estate, namespace_id: bytes, keys: PackedKeys
    ) -> PullEnd:
        query = PullQuery(
            namespace_id,
            keys,
            keys[len(keys) - 1],
            self._own_address,
            estate.name if estate.is_owned else None,
            self._catalog.spec_of(namespace_id),
        )
        with peer.pull(query, PULL_S) as call:
            while True:
                async with asyncio.timeout(NEWS_S):
                    progress = await call.next()
                if progress.end is not None:
                    is_whole = progress.held_blocks == len(keys)
                    is_lie = progress.end is PullEnd.COMPLETE and not is_whole
                    return PullEnd.UNAVAILABLE if is_lie else progress.end

    def _flip_whole(self, estates: Sequence[Estate]) -> None:
        """
        Let routers know where sessions are that are whole there.

        A turn that is under way here writes here when it ends: its session moves behind that, or
        the next turn would not find what this one computed.
        """
        for session_id, node_id in list(self._handoffs.whole(estates, self._peers)):
            if not self._has_turn(session_id):
                self._handoffs.move(session_id)
                self.moved.add(session_id, node_id)
