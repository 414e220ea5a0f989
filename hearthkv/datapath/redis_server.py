"""The blocks in one Redis server, within deadlines: for an event loop, and for threads without."""

import asyncio
from collections.abc import Callable, Sequence

from hearthkv.core.clock import Clock
from hearthkv.core.errors import HearthKVError, StoreError, StoreUnavailableError
from hearthkv.datapath.redis_blocks import (
    NamedRead,
    NamedWrite,
    read_outcome,
    read_request,
    store_error,
    write_outcome,
    write_request,
)
from hearthkv.datapath.redis_place import RedisPlace
from hearthkv.datapath.resp_blocking import BlockingResp
from hearthkv.datapath.resp_pool import RespPool
from hearthkv.datapath.resp_wire import Reply, Request, Word

Outcomes = list[StoreError | None]
"""One a block, in order; None where all is well."""


class _Run:
    """One call: its requests, and the outcomes as they come in."""

    def __init__(
        self, requests: list[Request], outcome: Callable[[int, Request], StoreError | None]
    ) -> None:
        self.requests = requests
        self._outcome = outcome
        self._settled: dict[int, StoreError | None] = {}

    def settle(self, index: int, request: Request) -> None:
        self._settled[index] = self._outcome(index, request)

    def outcomes(self, trouble: StoreError | None = None) -> Outcomes:
        """All outcomes, `trouble` where there is none."""
        return [self._settled.get(index, trouble) for index in range(len(self.requests))]


def _read_run(place: RedisPlace, reads: Sequence[NamedRead]) -> _Run:
    requests = [read_request(read) for read in reads]
    return _Run(requests, lambda index, request: read_outcome(place, reads[index], request))


def _write_run(place: RedisPlace, writes: Sequence[NamedWrite]) -> _Run:
    requests = [write_request(write) for write in writes]
    return _Run(requests, lambda _, request: write_outcome(place, request))


def _trouble(place: RedisPlace, error: Exception, deadline_s: float) -> StoreError:
    if isinstance(error, TimeoutError):
        return StoreUnavailableError(f"{place} did not answer within {deadline_s:g} s")
    return store_error(place, error)


class RedisServer:
    """
    Blocks in one server, by an event loop. Calls at the same time share connections and window.

    Args:
        place: The server.
        deadline_s: Within which every call ends.
    """

    def __init__(self, place: RedisPlace, *, deadline_s: float) -> None:
        self.place = place
        self._deadline_s = deadline_s
        self._pool = RespPool(place)

    async def get(self, reads: Sequence[NamedRead]) -> Outcomes:
        """Read copies; see `BlockStore.get`."""
        return await self._carry(_read_run(self.place, reads))

    async def put(self, writes: Sequence[NamedWrite]) -> Outcomes:
        """Write copies; see `BlockStore.put`."""
        return await self._carry(_write_run(self.place, writes))

    async def call(self, words: Sequence[Word]) -> bytes | None:
        """
        Send a small command and return its reply: a line, a short value, or None for neither.

        Raises:
            StoreError: If the server does not answer, or with an error.
        """
        request = Request(words)
        (trouble,) = await self._carry(_Run([request], lambda _, __: None))
        return _short_reply(self.place, request.reply, trouble)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    async def _carry(self, run: _Run) -> Outcomes:
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._pool.run(run.requests, run.settle)
        except (OSError, HearthKVError) as error:
            return run.outcomes(_trouble(self.place, error, self._deadline_s))
        return run.outcomes()


class BlockingRedisServer:
    """
    The same calls for one thread at a time that has no event loop, by one connection.

    Args:
        place: The server.
        clock: Tells when a deadline is over.
        deadline_s: Within which every call ends.
    """

    def __init__(self, place: RedisPlace, clock: Clock, *, deadline_s: float) -> None:
        self.place = place
        self._deadline_s = deadline_s
        self._connection = BlockingResp(place, clock)

    def get(self, reads: Sequence[NamedRead]) -> Outcomes:
        """Read copies; see `BlockStore.get`."""
        return self._carry(_read_run(self.place, reads))

    def put(self, writes: Sequence[NamedWrite]) -> Outcomes:
        """Write copies; see `BlockStore.put`."""
        return self._carry(_write_run(self.place, writes))

    def call(self, words: Sequence[Word]) -> bytes | None:
        """
        Send a small command and return its reply: a line, a short value, or None for neither.

        Raises:
            StoreError: If the server does not answer, or with an error.
        """
        request = Request(words)
        (trouble,) = self._carry(_Run([request], lambda _, __: None))
        return _short_reply(self.place, request.reply, trouble)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _carry(self, run: _Run) -> Outcomes:
        try:
            self._connection.run(run.requests, run.settle, deadline_s=self._deadline_s)
        except (OSError, HearthKVError) as error:
            return run.outcomes(_trouble(self.place, error, self._deadline_s))
        return run.outcomes()


def _short_reply(place: RedisPlace, reply: Reply, trouble: StoreError | None) -> bytes | None:
    if trouble is not None:
        raise trouble
    if isinstance(reply, HearthKVError):
        raise store_error(place, reply) from reply
    return reply
