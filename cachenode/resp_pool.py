"""The connections to one Redis server that carry blocks, and how many there may be."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cachenode.resp_connection import RedisPlace, RespConnection


class RespPool:
    """Opens connections when they are needed, keeps those that are idle, and bounds both."""

    def __init__(self, place: RedisPlace, connections_max: int) -> None:
        self._place = place
        self._room = asyncio.Semaphore(connections_max)
        self._idle: list[RespConnection] = []
        self._is_closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[RespConnection]:
        """
        Lend a connection, and wait for one where all are lent.

        Raises:
            OSError: If nobody listens there.
            RespError: If the server does not let us in.
        """
        async with self._room:
            connection = self._take_idle() or await RespConnection.open(self._place)
            try:
                yield connection
            finally:
                if self._is_closed:
                    connection.close()
                elif connection.is_usable:
                    self._idle.append(connection)

    def close(self) -> None:
        """Close what is idle now, and the others when they come back."""
        self._is_closed = True
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _take_idle(self) -> RespConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        return None
