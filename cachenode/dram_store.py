"""
Blocks in DRAM: one or more Redis (or Valkey) servers. The only module that knows redis-py.

Bytes of blocks go by `hearthkv.datapath`, straight between the servers and the caller's memory;
redis-py is the client for all other commands. `hearthkv.datapath.redis_names` says what lies
under which name. Each server also holds an epoch, which says which start of the node filled it:
a server without it was emptied or replaced.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import redis.asyncio
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, RedisError

from cachenode.redis_scripts import CONFIRM, SCAN, unpacked_scan
from cachenode.store import CopyRead, CopyWrite, ScanPart, StoreCheck
from hearthkv.core.block_frame import FRAME_BYTES, BlockFrame, decode_frame
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.direct_path import BlockAddress, RedisAddress
from hearthkv.core.errors import (
    BlockLostError,
    FrameError,
    SettingsError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from hearthkv.datapath.redis_blocks import NamedRead, NamedWrite
from hearthkv.datapath.redis_names import RedisNames, epoch_value, server_index, server_seed
from hearthkv.datapath.redis_place import RedisPlace, parse_place
from hearthkv.datapath.redis_server import RedisServer

COMMANDS_MAX: Final = 4
"""Commands under way beside blocks, so that a scan holds up no look at the server's health."""

_SCAN_COUNT: Final = 500  # its answer fits into a socket, so that the server need not wait
_NAMES_MAX: Final = 500  # of one command
_NO_EVICTION: Final = "noeviction"

_Item = TypeVar("_Item")
_Outcomes = list[StoreError | None]


class DramStore:
    """
    A `BlockStore` over Redis servers; used by one event loop, by the node of this id only.

    Raises:
        SettingsError: If a URL can't be understood. Its text does not repeat the URL, which
            may hold a password.
    """

    def __init__(
        self, urls: Sequence[str], *, node_id: NodeId, epoch: int, deadline_s: float
    ) -> None:
        self.tier: Final = Tier.DRAM
        self._names = RedisNames(node_id)
        if not urls:
            raise SettingsError("redis_urls is empty, must name at least one server")
        places = list(map(_place, urls))
        self._seeds = [server_seed(str(place)) for place in places]
        self._servers = [_Server(place, self._names, epoch, deadline_s) for place in places]

    @property
    def servers(self) -> tuple[RedisPlace, ...]:
        """The servers, with what is needed to be let in."""
        return tuple(server.place for server in self._servers)

    def locate(self, refs: Sequence[BlockRef]) -> list[BlockAddress | None]:
        """Return on which servers copies lie, or are to be written by a client."""
        return [RedisAddress(self._index_of(self._names.block_of(ref))) for ref in refs]

    async def put(self, writes: Sequence[CopyWrite]) -> list[StoreError | None]:
        """Store blocks."""
        named = []
        for write in writes:
            frame = write.frame
            name = self._names.block(frame.spec.namespace_id, frame.key, frame.sequence)
            named.append(NamedWrite(name, frame, write.payload))
        return await self._spread(
            named, lambda write: write.name, lambda server, part: server.blocks.put(part)
        )

    async def get(self, reads: Sequence[CopyRead]) -> list[StoreError | None]:
        """Read payloads, checked."""
        named = [NamedRead(self._names.block_of(read.ref), read.ref, read.into) for read in reads]
        return await self._spread(
            named, lambda read: read.name, lambda server, part: server.blocks.get(part)
        )

    async def confirm(self, refs: Sequence[BlockRef]) -> list[StoreError | None]:
        """
        Keep copies that clients wrote under reserved names, from now on as if put here.

        Returns:
            None for a copy that is stored; BlockLostError where it is not there or has another
            size than it must have; StoreUnavailableError where its server does not answer.
        """
        return await self._spread(refs, self._names.block_of, _Server.confirm)

    async def discard(self, refs: Sequence[BlockRef]) -> None:
        """
        Forget copies under reserved names; those that are not there are passed over.

        Raises:
            StoreUnavailableError: If a server does not answer; the copies vanish in their time.
        """
        await self._unlink(refs, self._names.reserved_of)

    async def erase(self, refs: Sequence[BlockRef]) -> None:
        """Forget blocks."""
        await self._unlink(refs, self._names.block_of)

    async def scan(self) -> AsyncIterator[ScanPart]:
        """Go over all blocks; those on a server where they would not be looked for are removed."""
        for index, server in enumerate(self._servers):
            seen: set[bytes] = set()  # SCAN may give a name twice while its table grows
            async for heads in server.scan(self._names.block_prefix):
                frames = []
                unsound = []
                for name, head in heads:
                    if name in seen:
                        continue
                    seen.add(name)
                    frame = self._sound_frame(index, name, head)
                    if frame is None:
                        unsound.append(name)
                    else:
                        frames.append(frame)
                await server.unlink(unsound)
                yield ScanPart(tuple(frames), len(unsound))

    async def check(self) -> StoreCheck:
        """Look whether all servers answer and are what they were."""
        async with asyncio.TaskGroup() as tasks:
            checks = [tasks.create_task(server.check()) for server in self._servers]
        found = [check.result() for check in checks]
        return StoreCheck(
            trouble="; ".join(check.trouble for check in found if check.trouble),
            is_same=all(check.is_same for check in found),
            advice="; ".join(check.advice for check in found if check.advice),
        )

    async def close(self) -> None:
        """Close all connections."""
        for server in self._servers:
            await server.close()
        await asyncio.sleep(0)  # in which the loop lets go of sockets that were cut

    async def _spread(
        self,
        items: Sequence[_Item],
        block_name: Callable[[_Item], bytes],
        carry: Callable[["_Server", Sequence[_Item]], Awaitable[_Outcomes]],
    ) -> _Outcomes:
        """Let each server carry its part of the items, all servers at once."""
        indices: dict[int, list[int]] = defaultdict(list)
        for index, item in enumerate(items):
            indices[self._index_of(block_name(item))].append(index)
        outcomes: _Outcomes = [None] * len(items)

        async def carry_part(server: _Server, its_indices: list[int]) -> None:
            part = await carry(server, [items[index] for index in its_indices])
            for index, outcome in zip(its_indices, part, strict=True):
                outcomes[index] = outcome

        async with asyncio.TaskGroup() as tasks:
            for server, its_indices in indices.items():
                tasks.create_task(carry_part(self._servers[server], its_indices))
        return outcomes

    async def _unlink(self, refs: Sequence[BlockRef], name: Callable[[BlockRef], bytes]) -> None:
        names: dict[int, list[bytes]] = defaultdict(list)
        for ref in refs:
            names[self._index_of(self._names.block_of(ref))].append(name(ref))
        for server, its_names in names.items():
            await self._servers[server].unlink(its_names)

    def _index_of(self, block_name: bytes) -> int:
        return server_index(block_name, self._seeds)

    def _sound_frame(self, server: int, name: bytes, head: bytes) -> BlockFrame | None:
        try:
            frame = decode_frame(head)
        except FrameError:
            return None
        its_name = self._names.block(frame.spec.namespace_id, frame.key, frame.sequence)
        is_in_place = its_name == name and self._index_of(name) == server
        return frame if is_in_place else None


class _Server:
    """One Redis server: commands with deadlines, and Redis' errors in our words."""

    def __init__(self, place: RedisPlace, names: RedisNames, epoch: int, deadline_s: float) -> None:
        self.place = place
        self.blocks = RedisServer(place, deadline_s=deadline_s)
        self._client = _client(place, deadline_s)
        self._names = names
        self._epoch = epoch_value(epoch)
        self._deadline_s = deadline_s
        self._run_id: str | None = None  # of the server at the last good look

    async def confirm(self, refs: Sequence[BlockRef]) -> _Outcomes:
        """Give reserved copies their names."""
        outcomes: _Outcomes = []
        try:
            for at in range(0, len(refs), _NAMES_MAX):
                outcomes += await self._confirm(refs[at : at + _NAMES_MAX])
        except StoreError as error:
            outcomes += [error] * (len(refs) - len(outcomes))
        return outcomes

    async def _confirm(self, refs: Sequence[BlockRef]) -> _Outcomes:
        names = [
            name
            for ref in refs
            for name in (self._names.reserved_of(ref), self._names.block_of(ref))
        ]
        sizes = [FRAME_BYTES + ref.size_bytes for ref in refs]
        async with self._call():
            answer = await self._run("EVAL", CONFIRM, len(names), *names, *sizes)
        assert isinstance(answer, list)
        return [
            None
            if found == size
            else BlockLostError(f"{self.place} has {found} bytes of a block, must have {size}")
            for found, size in zip(answer, sizes, strict=True)
        ]

    async def unlink(self, names: Sequence[bytes]) -> None:
        for at in range(0, len(names), _NAMES_MAX):
            async with self._call():
                await self._run("UNLINK", *names[at : at + _NAMES_MAX])

    async def scan(self, prefix: bytes) -> AsyncIterator[list[tuple[bytes, bytes]]]:
        """Names that start with `prefix`, each with the FRAME_BYTES at the start of its value."""
        pattern = prefix + b"*"  # a node id has no character that means something in it
        async with self._connection() as connection:
            await self._ask_scan(connection, b"0", pattern)
            is_last = False
            while not is_last:
                async with self._call():
                    answer: object = await connection.read_response()
                assert isinstance(answer, list)
                cursor, packed = answer
                is_last = cursor == b"0"
                if not is_last:
                    # The server goes on while what it gave is looked at.
                    await self._ask_scan(connection, cursor, pattern)
                if packed:
                    yield list(unpacked_scan(packed))

    async def _ask_scan(
        self, connection: AbstractConnection, cursor: bytes, pattern: bytes
    ) -> None:
        """Ask for the next cursor, and for packed names and heads."""
        async with self._call():
            await connection.send_command(
                "EVAL", SCAN, 0, cursor, pattern, _SCAN_COUNT, FRAME_BYTES
            )

    async def check(self) -> StoreCheck:
        """Look whether the server answers, and mark it as ours where it is not."""
        try:
            async with self._call():
                server = await self._client.info("server")
                found = await self._client.get(self._names.epoch)
                run_id = server.get("run_id", "")
                if run_id == self._run_id and found == self._epoch:
                    return StoreCheck(trouble="", is_same=True)
                await self._client.set(self._names.epoch, self._epoch)
                memory = await self._client.info("memory")
        except (StoreUnavailableError, StoreFullError) as error:
            return StoreCheck(trouble=str(error), is_same=False)
        advice = []
        if run_id == self._run_id and found is not None:
            # The server is the one that was marked, and the mark is another's.
            advice.append(
                f"another node of this id uses {self.place}, and each scans what the other wrote: "
                f"give each node its own --node-id"
            )
        policy = memory.get("maxmemory_policy", _NO_EVICTION)
        if policy != _NO_EVICTION:
            advice.append(
                f"{self.place} evicts by {policy!r} behind the node's back: "
                f"set maxmemory-policy {_NO_EVICTION}"
            )
        self._run_id = run_id
        return StoreCheck(trouble="", is_same=False, advice="; ".join(advice))

    async def close(self) -> None:
        self.blocks.close()
        await self._client.aclose()

    async def _run(self, *words: str | bytes | int) -> object:
        answer: object = await self._client.execute_command(*words)  # type: ignore[no-untyped-call]
        return answer

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AbstractConnection]:
        """A connection for questions whose answers are not awaited at once."""
        pool = self._client.connection_pool
        async with self._call():
            connection: AbstractConnection = await pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            yield connection
        except BaseException:
            await connection.disconnect(nowait=True)  # an answer may still be on its way
            raise
        finally:
            await pool.release(connection)

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        """Bound a call by the deadline, and translate what goes wrong in it."""
        try:
            async with asyncio.timeout(self._deadline_s):
                yield
        except OutOfMemoryError as error:
            raise StoreFullError(f"{self.place} is full: {error}") from error
        except TimeoutError as error:
            raise StoreUnavailableError(
                f"{self.place} did not answer within {self._deadline_s:g} s"
            ) from error
        except (RedisError, OSError) as error:
            raise StoreUnavailableError(f"{self.place}: {error}") from error


def _place(url: str) -> RedisPlace:
    try:
        return parse_place(url)
    except SettingsError as error:
        raise SettingsError(f"redis_urls: {error}") from error


def _client(place: RedisPlace, deadline_s: float) -> redis.asyncio.Redis:
    """A client for all but the bytes of blocks; it connects when it is needed."""
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        place.secret_url(),
        max_connections=COMMANDS_MAX,
        timeout=deadline_s,
        socket_timeout=deadline_s,
        socket_connect_timeout=deadline_s,
        # A pooled connection may be dead since the server's last restart: once more, no more.
        retry=Retry(NoBackoff(), 1),
        decode_responses=False,
    )
    return redis.asyncio.Redis.from_pool(pool)
