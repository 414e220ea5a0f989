"""
Blocks in DRAM: one or more Redis (or Valkey) servers. The only module that knows Redis.

A copy of a block is one string value, frame and payload, under `hearthkv:NODE:block:` and its
name. The name decides on which server it lies. Each server also holds `hearthkv:NODE:epoch`,
which says which start of the node filled it: a server without it was emptied or replaced.
"""

import asyncio
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import redis.asyncio
import xxhash
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, RedisError

from cachenode.resp_connection import RedisPlace, RespError
from cachenode.resp_pool import RespPool
from cachenode.store import Buffer, CopyRead, CopyWrite, ScanPart, StoreCheck
from hearthkv.core.block_frame import (
    FRAME_BYTES,
    BlockFrame,
    check_block,
    decode_frame,
    encode_frame,
)
from hearthkv.core.block_ref import BlockRef
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

CONNECTIONS_MAX: Final = 4
"""Blocks under way to or from one server. More of them slow a server down: with 16 large
reads outstanding, Redis 7 gave half its bandwidth for twice its memory."""

COMMANDS_MAX: Final = 4
"""Other commands under way, so that a scan holds up no look at the server's health."""

_SCAN_COUNT: Final = 2000
_ERASE_COUNT: Final = 500
_URL_SCHEMES: Final = ("unix", "redis", "rediss")
_SCAN_SCRIPT: Final = """
local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local size, parts = tonumber(ARGV[4]), {}
for _, name in ipairs(found[2]) do
  local head = redis.pcall('GETRANGE', name, 0, size - 1)
  if type(head) ~= 'string' or #head ~= size then head = string.rep('\\0', size) end
  parts[#parts + 1] = string.char(#name) .. name .. head
end
return {found[1], table.concat(parts)}
"""
"""One step of a scan in one reply: a length byte, the name and the head of every value. Replies
for each name and each head would take four times as long."""

_NO_EVICTION: Final = "noeviction"


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
        prefix = f"hearthkv:{node_id}:"
        self._block_prefix = f"{prefix}block:".encode()
        self._servers = [_Server(url, prefix, epoch, deadline_s) for url in urls]
        if not self._servers:
            raise SettingsError("redis_urls is empty, must name at least one server")

    async def put(self, writes: Sequence[CopyWrite]) -> list[StoreError | None]:
        """Store blocks."""
        return list(await asyncio.gather(*map(self._put, writes)))

    async def get(self, reads: Sequence[CopyRead]) -> list[StoreError | None]:
        """Read payloads, checked."""
        return list(await asyncio.gather(*map(self._get, reads)))

    async def _put(self, write: CopyWrite) -> StoreError | None:
        frame = write.frame
        name = self._name(frame.spec.namespace_id, frame.key, frame.sequence)
        try:
            await self._server_of(name).set(name, (encode_frame(frame), write.payload))
        except StoreError as error:
            return error
        return None

    async def _get(self, read: CopyRead) -> StoreError | None:
        ref = read.ref
        name = self._name(ref.namespace_id, ref.key, ref.sequence)
        server = self._server_of(name)
        try:
            stored = await server.get(name)
        except StoreError as error:
            return error
        if stored is None:
            return BlockLostError(f"{server.label} has no value for block {ref.key.hex()}")
        try:
            read.into[:] = check_block(stored, ref)
        except FrameError as error:
            return BlockLostError(f"{server.label}: {error}")
        return None

    async def erase(self, refs: Sequence[BlockRef]) -> None:
        """Forget blocks."""
        names: dict[_Server, list[bytes]] = defaultdict(list)
        for ref in refs:
            name = self._name(ref.namespace_id, ref.key, ref.sequence)
            names[self._server_of(name)].append(name)
        for server, its_names in names.items():
            await server.unlink(its_names)

    async def scan(self) -> AsyncIterator[ScanPart]:
        """Go over all blocks; those on a server where they would not be looked for are removed."""
        for server in self._servers:
            seen: set[bytes] = set()  # SCAN may give a name twice while its table grows
            async for heads in server.scan(self._block_prefix):
                frames = []
                unsound = []
                for name, head in heads:
                    if name in seen:
                        continue
                    seen.add(name)
                    frame = self._sound_frame(server, name, head)
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

    def _name(self, namespace_id: bytes, key: bytes, sequence: int) -> bytes:
        # The lengths go in, so that no two copies share a name.
        lengths = bytes((len(namespace_id), len(key)))
        copy = sequence.to_bytes(8, "little")
        return b"".join((self._block_prefix, lengths, namespace_id, key, copy))

    def _server_of(self, name: bytes) -> "_Server":
        """The server with the highest draw, so that one more server moves few blocks."""
        if len(self._servers) == 1:
            return self._servers[0]
        draw = xxhash.xxh3_64_intdigest
        return max(self._servers, key=lambda server: draw(name, seed=server.seed))

    def _sound_frame(self, server: "_Server", name: bytes, head: bytes) -> BlockFrame | None:
        try:
            frame = decode_frame(head)
        except FrameError:
            return None
        its_name = self._name(frame.spec.namespace_id, frame.key, frame.sequence)
        is_in_place = its_name == name and self._server_of(name) is server
        return frame if is_in_place else None


class _Server:
    """One Redis server: commands with deadlines, and Redis' errors in our words."""

    def __init__(self, url: str, prefix: str, epoch: int, deadline_s: float) -> None:
        self.label = server_label(url)
        self.seed = xxhash.xxh3_64_intdigest(self.label.encode())
        self._deadline_s = deadline_s
        self._epoch_name = f"{prefix}epoch"
        self._epoch = f"{epoch:016x}".encode()
        self._run_id: str | None = None  # of the server at the last good look
        try:
            self._blocks = RespPool(_place(url), CONNECTIONS_MAX)
            self._client = _client(url, deadline_s)
        except ValueError:
            # Redis' text may quote a part of the password.
            raise SettingsError(
                f"redis_urls: {self.label} can't be understood, must be unix:///path.sock or "
                f"redis://[:password@]host:port[/db], special characters %-encoded"
            ) from None

    async def set(self, name: bytes, value: tuple[Buffer, ...]) -> None:
        async with self._call(), self._blocks.connection() as connection:
            await connection.call((b"SET", name, value))

    async def get(self, name: bytes) -> memoryview | None:
        async with self._call(), self._blocks.connection() as connection:
            stored = await connection.call((b"GET", name))
        return stored if isinstance(stored, memoryview) else None

    async def unlink(self, names: Sequence[bytes]) -> None:
        for at in range(0, len(names), _ERASE_COUNT):
            async with self._call():
                await self._run("UNLINK", *names[at : at + _ERASE_COUNT])

    async def scan(self, prefix: bytes) -> AsyncIterator[list[tuple[bytes, bytes]]]:
        """Names that start with `prefix`, each with the FRAME_BYTES at the start of its value."""
        pattern = prefix + b"*"  # a node id has no character that means something in it
        cursor = b"0"
        while True:
            words = (cursor, pattern, _SCAN_COUNT, FRAME_BYTES)
            async with self._call():
                answer = await self._run("EVAL", _SCAN_SCRIPT, 0, *words)
            assert isinstance(answer, list)
            cursor, packed = answer
            if packed:
                yield list(_unpacked(packed))
            if cursor == b"0":
                return

    async def check(self) -> StoreCheck:
        """Look whether the server answers, and mark it as ours where it is not."""
        try:
            async with self._call():
                server = await self._client.info("server")
                found = await self._client.get(self._epoch_name)
                run_id = server.get("run_id", "")
                if run_id == self._run_id and found == self._epoch:
                    return StoreCheck(trouble="", is_same=True)
                await self._client.set(self._epoch_name, self._epoch)
                memory = await self._client.info("memory")
        except (StoreUnavailableError, StoreFullError) as error:
            return StoreCheck(trouble=str(error), is_same=False)
        advice = []
        if run_id == self._run_id and found is not None:
            # The server is the one that was marked, and the mark is another's.
            advice.append(
                f"another node of this id uses {self.label}, and each scans what the other wrote: "
                f"give each node its own --node-id"
            )
        policy = memory.get("maxmemory_policy", _NO_EVICTION)
        if policy != _NO_EVICTION:
            advice.append(
                f"{self.label} evicts by {policy!r} behind the node's back: "
                f"set maxmemory-policy {_NO_EVICTION}"
            )
        self._run_id = run_id
        return StoreCheck(trouble="", is_same=False, advice="; ".join(advice))

    async def close(self) -> None:
        self._blocks.close()
        await self._client.aclose()

    async def _run(self, *words: str | bytes | int) -> object:
        answer: object = await self._client.execute_command(*words)  # type: ignore[no-untyped-call]
        return answer

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        """Bound a call by the deadline, and translate what goes wrong in it."""
        try:
            async with asyncio.timeout(self._deadline_s):
                yield
        except (OutOfMemoryError, RespError) as error:
            if isinstance(error, RespError) and not str(error).startswith("OOM"):
                raise StoreUnavailableError(f"{self.label}: {error}") from error
            raise StoreFullError(f"{self.label} is full: {error}") from error
        except TimeoutError as error:
            raise StoreUnavailableError(
                f"{self.label} did not answer within {self._deadline_s:g} s"
            ) from error
        except (RedisError, OSError, StoreUnavailableError) as error:
            raise StoreUnavailableError(f"{self.label}: {error}") from error


def _unpacked(packed: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and heads, as _SCAN_SCRIPT packs them."""
    at = 0
    while at < len(packed):
        head_at = at + 1 + packed[at]
        end = head_at + FRAME_BYTES
        yield packed[at + 1 : head_at], packed[head_at:end]
        at = end


def server_label(url: str) -> str:
    """Return what may be shown of a server's URL: where it is, without user and password."""
    scheme, _, rest = url.partition("://")
    if scheme not in _URL_SCHEMES:
        return "a URL of no known scheme"
    place, _, options = rest.partition("?")
    # An @ behind a ? may be of a password before it or after it: then nothing is shown.
    return f"{scheme}://{'...' if '@' in options else place.rpartition('@')[2]}"


def _place(url: str) -> RedisPlace:
    """
    Where the server of a URL is.

    Raises:
        ValueError: If the URL can't be understood.
    """
    found = parse_url(url)
    is_tls = url.startswith("rediss://")
    authority = str(found.get("ssl_ca_certs") or "") or None
    return RedisPlace(
        path=found.get("path", ""),
        host=found.get("host", "localhost"),
        port=found.get("port", 6379),
        tls=ssl.create_default_context(cafile=authority) if is_tls else None,
        username=found.get("username", ""),
        password=found.get("password", ""),
        database=found.get("db", 0),
    )


def _client(url: str, deadline_s: float) -> redis.asyncio.Redis:
    """
    A client for all but the bytes of blocks; it connects when it is needed.

    Raises:
        ValueError: If the URL can't be understood.
    """
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        url,
        max_connections=COMMANDS_MAX,
        timeout=deadline_s,
        socket_timeout=deadline_s,
        socket_connect_timeout=deadline_s,
        # A pooled connection may be dead since the server's last restart: once more, no more.
        retry=Retry(NoBackoff(), 1),
        decode_responses=False,
    )
    return redis.asyncio.Redis.from_pool(pool)
