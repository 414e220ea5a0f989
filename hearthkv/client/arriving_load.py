"""
Loads blocks that another node is still sending to the node that they are loaded from. Not pure.

What is held is loaded at once. What arrives is loaded behind it, for as long as waiting is sooner
done than computing: `load_gate` says for how long that is. The rest is left to the prefill.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from hearthkv.client.deadline import Deadline
from hearthkv.client.events import ArrivalsAwaited
from hearthkv.client.load_gate import wait_limit_s
from hearthkv.client.load_rates import LoadRates
from hearthkv.client.load_run import LoadQuery
from hearthkv.client.node_client import NodeClient
from hearthkv.client.outcome import Loaded, MissReason, miss_of
from hearthkv.client.pull_call import PullCall
from hearthkv.client.settings import ClientSettings
from hearthkv.core.errors import PeerError
from hearthkv.core.pulls import PullProgress, PullQuery
from hearthkv.core.tier import TierCounts

SEGMENT_BYTES: Final = 8 * 1024 * 1024
"""Bytes that arrive before they are loaded; every load costs a round trip."""

_GOES_ON = frozenset({None, MissReason.NOT_HELD})
"""Outcomes of a part behind which more may come."""

LoadHeld = Callable[[NodeClient, LoadQuery], Awaitable[Loaded]]
"""Loads what a node holds; whatever goes wrong is a miss with a reason."""


class ArrivingLoad:
    """
    One such load.

    Args:
        node: Whom to load from.
        query: What to load; `query.pull` names what arrives.
        load_held: Loads a part of it.
        rates: What is known of arrivals and of computing; learns how fast blocks arrived.
        settings: Whether there is a gate.
    """

    def __init__(
        self,
        node: NodeClient,
        query: LoadQuery,
        load_held: LoadHeld,
        rates: LoadRates,
        settings: ClientSettings,
    ) -> None:
        assert query.pull is not None
        self._node = node
        self._query = query
        self._pull: PullQuery = query.pull
        self._load_held = load_held
        self._rates = rates
        self._settings = settings
        self._clock = node.calls.clock
        self._deadline = Deadline.after(self._clock.now(), query.limit_s)
        self._end = min(len(query.pull.keys), query.first_block + len(query.keys))
        """Where in the prompt the blocks end that are asked for and arrive."""

        self._first_news: tuple[float, PullProgress] | None = None
        self._awaited_s = 0.0
        self._over: MissReason | None = None  # why there is nothing to wait for any more

    async def run(self) -> Loaded:
        """Load what is held and what arrives; the account of both."""
        try:
            # The call comes first: where nobody has begun to fetch, it begins now.
            call = self._node.pull(self._pull, self._query.limit_s)
        except PeerError as error:
            return Loaded(miss=miss_of(error))
        with call:
            loaded = await self._load_held(self._node, self._query)
            while loaded.miss in _GOES_ON and self._at(loaded) < self._end:
                held = await self._wait(call, self._at(loaded))
                if isinstance(held, MissReason):
                    loaded = replace(loaded, miss=held)
                    break
                part = await self._load_held(self._node, self._rest(loaded.blocks, held))
                loaded = _joined(loaded, part)
                if not part.blocks:
                    break
        return self._account(loaded)

    def _at(self, loaded: Loaded) -> int:
        return self._query.first_block + loaded.blocks

    async def _wait(self, call: PullCall, at: int) -> int | MissReason:
        """Wait until blocks behind `at` are held; return where they end, or why not to wait."""
        query, started_s = self._query, self._clock.now()
        if self._over is not None:
            return self._over
        enough = min(self._end, at + max(1, SEGMENT_BYTES // query.spec.block_bytes))
        held = at
        try:
            while held < enough:
                async with asyncio.timeout(self._limit_s(self._end - at)):
                    news = await call.next()
                self._learn(news)
                held = max(held, min(news.held_blocks, self._end))
                if news.end is not None:
                    self._over = MissReason.NOT_HELD
                    break
        except TimeoutError:
            is_late = not self._deadline.left_s(self._clock.now())
            self._over = MissReason.TIMEOUT if is_late else MissReason.RECOMPUTE
        except PeerError as error:
            self._over = miss_of(error)
        finally:
            self._awaited_s += self._clock.now() - started_s
        return self._over if held == at and self._over is not None else held

    def _limit_s(self, blocks: int) -> float | None:
        """How long to wait for the next news; None: as long as it takes."""
        now_s, query = self._clock.now(), self._query
        limit_s = self._deadline.left_s(now_s)
        if self._settings.load_gate:
            pays_s = wait_limit_s(self._rates, self._node.address, query.spec, blocks, now_s)
            limit_s = min(limit_s, pays_s)
        return None if math.isinf(limit_s) else limit_s

    def _learn(self, news: PullProgress) -> None:
        """Take note of how fast blocks arrive, from the second news on."""
        now_s = self._clock.now()
        if self._first_news is None:
            self._first_news = now_s, news
            return
        first_s, first = self._first_news
        size_bytes = (news.pulled_blocks - first.pulled_blocks) * self._query.spec.block_bytes
        self._rates.note_arrivals(self._node.address, size_bytes, now_s - first_s, now_s)

    def _rest(self, blocks: int, held: int) -> LoadQuery:
        """What is behind the first blocks, up to what is held now."""
        query, on_progress = self._query, self._query.on_progress
        first_block = query.first_block + blocks
        return replace(
            query,
            keys=query.keys.slice(blocks, held - query.first_block),
            first_block=first_block,
            matched=TierCounts(dram=held),
            view=query.view[blocks * query.spec.block_bytes :],
            limit_s=self._deadline.left_s(self._clock.now()),
            on_progress=None if on_progress is None else lambda more: on_progress(blocks + more),
        )

    def _account(self, loaded: Loaded) -> Loaded:
        query = self._query
        if loaded.miss is None and loaded.blocks < len(query.keys):
            loaded = replace(loaded, miss=MissReason.NOT_HELD)  # so far the source had it
        if loaded.blocks == len(query.keys):
            loaded = replace(loaded, miss=None)
        before = max(query.first_block, query.matched.total)
        pulled_blocks = max(0, min(self._at(loaded), self._end) - before)
        self._node.calls.telemetry.emit(
            ArrivalsAwaited(self._node.address, pulled_blocks, self._awaited_s)
        )
        return replace(loaded, pulled_blocks=pulled_blocks)


def _joined(first: Loaded, then: Loaded) -> Loaded:
    return Loaded(
        blocks=first.blocks + then.blocks,
        tokens=first.tokens + then.tokens,
        by_tier=first.by_tier + then.by_tier,
        miss=then.miss,
        direct_blocks=first.direct_blocks + then.direct_blocks,
    )
