"""
One connection to Redis for the bytes of blocks: a small part of RESP2, read where it will stay.

A Redis client reads a reply into a buffer of its own and copies it out, twice or more; for
blocks of megabytes those copies are most of the work. Here the loop reads a value straight into
the buffer that is handed on. Commands other than those of blocks go through the usual client.
"""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hearthkv.core.errors import StoreUnavailableError

VALUE_BYTES_MAX: Final = 512 * 1024 * 1024
"""What Redis itself allows."""

_LINE_BYTES_MAX: Final = 1024
_PIECE_BYTES: Final = 256 * 1024

Buffer = bytes | bytearray | memoryview
Word = Buffer | tuple[Buffer, ...]
"""A word of a command; several buffers are sent as one word, without being joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisPlace:
    """Where a server is, and how to be let in."""

    path: str = ""
    """Its unix socket; empty for TCP."""

    host: str = ""
    port: int = 6379
    tls: ssl.SSLContext | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    database: int = 0


class RespError(Exception):
    """The server answered with an error; the text begins with its kind, for instance OOM."""


class RespConnection(asyncio.BufferedProtocol):
    """
    One command at a time. After an error or a cancelled call the connection is of no more use.

    Reading is a matter of three states: a line is coming, a value is coming, or nothing is asked.
    """

    def __init__(self) -> None:
        self.is_usable = True
        """False once the connection is lost, or a command was not carried through."""

        self._transport: asyncio.Transport | None = None
        self._line = bytearray(_LINE_BYTES_MAX)
        self._line_end = 0
        self._value: bytearray | None = None  # with the two bytes of the line end behind it
        self._value_end = 0
        self._reply: asyncio.Future[bytes | memoryview | None] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()

    @classmethod
    async def open(cls, place: RedisPlace) -> "RespConnection":
        """
        Connect and log in.

        Raises:
            OSError: If nobody listens there.
            RespError: If the server does not let us in.
        """
        loop = asyncio.get_running_loop()
        if place.path:
            _, connection = await loop.create_unix_connection(cls, place.path)
        else:
            _, connection = await loop.create_connection(cls, place.host, place.port, ssl=place.tls)
        try:
            if place.password:
                user = [place.username.encode()] if place.username else []
                await connection.call([b"AUTH", *user, place.password.encode()])
            if place.database:
                await connection.call([b"SELECT", str(place.database).encode()])
        except BaseException:
            connection.close()
            raise
        return connection

    async def call(self, words: Sequence[Word]) -> bytes | memoryview | None:
        """
        Send a command and return its reply: a line, a value, or None where there is none.

        A value is a buffer that the caller owns.

        Raises:
            RespError: If the server answers with an error.
            StoreUnavailableError: If the connection is lost.
        """
        assert self._reply is None
        if not self.is_usable:
            raise StoreUnavailableError("the connection is lost")
        self._reply = asyncio.get_running_loop().create_future()
        try:
            for piece in _framed(words):
                await self._send(piece)
            return await self._reply
        except RespError:
            raise
        except BaseException:
            self.close()
            raise
        finally:
            if self._reply.done() and not self._reply.cancelled():
                self._reply.exception()  # it may have come while the command was being sent
            self._reply = None

    def close(self) -> None:
        """Cut the connection."""
        self.is_usable = False
        if self._transport is not None:
            self._transport.abort()

    async def _send(self, buffer: Buffer) -> None:
        assert self._transport is not None
        view = memoryview(buffer)
        # In pieces, so that a slow server fills one piece and not a second copy of the block.
        for at in range(0, len(view), _PIECE_BYTES):
            await self._may_write.wait()
            if not self.is_usable:
                raise StoreUnavailableError("the connection was lost")
            self._transport.write(view[at : at + _PIECE_BYTES])

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits for a reply or for room."""
        self.is_usable = False
        self._may_write.set()
        reason = f": {exc}" if exc else ""
        self._fail(StoreUnavailableError(f"the connection was lost{reason}"))

    def pause_writing(self) -> None:
        """Wait until the server has taken what was written."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """Go on writing."""
        self._may_write.set()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # what is asked for is known
        """Return where the next bytes belong."""
        if self._value is not None:
            return memoryview(self._value)[self._value_end :]
        return memoryview(self._line)[self._line_end :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take in bytes that lie where they belong."""
        if self._value is None:
            self._line_end += nbytes
            self._read_line()
        else:
            self._value_end += nbytes
            self._read_value()

    def eof_received(self) -> bool:
        """Let the connection close."""
        return False

    def _read_line(self) -> None:
        end = self._line.find(b"\r\n", 0, self._line_end)
        if end < 0:
            if self._line_end == _LINE_BYTES_MAX:
                self._break(f"a line has over {_LINE_BYTES_MAX} bytes")
            return
        line, rest = bytes(self._line[:end]), bytes(self._line[end + 2 : self._line_end])
        self._line_end = 0
        kind, text = line[:1], line[1:]
        if kind == b"$" and text != b"-1":
            self._begin_value(text, rest)
        elif rest:
            self._break("there are bytes behind a reply")
        elif kind == b"-":
            self._fail(RespError(text.decode(errors="replace")))
        elif kind in {b"+", b":", b"$"}:
            self._give(None if kind == b"$" else text)
        else:
            self._break(f"a reply begins with {kind!r}")

    def _begin_value(self, text: bytes, rest: bytes) -> None:
        if not text.isdigit() or int(text) > VALUE_BYTES_MAX or len(rest) > int(text) + 2:
            self._break(f"a value is said to have {text!r} bytes")
            return
        self._value = bytearray(int(text) + 2)
        self._value[: len(rest)] = rest
        self._value_end = len(rest)
        self._read_value()

    def _read_value(self) -> None:
        assert self._value is not None
        if self._value_end == len(self._value):
            value, self._value = self._value, None
            self._give(memoryview(value)[:-2])

    def _give(self, reply: bytes | memoryview | None) -> None:
        if self._reply is None or self._reply.done():
            self.close()  # nobody asked
        else:
            self._reply.set_result(reply)

    def _break(self, reason: str) -> None:
        self._fail(StoreUnavailableError(f"the server does not speak RESP: {reason}"))
        self.close()

    def _fail(self, error: Exception) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error)


def _framed(words: Sequence[Word]) -> list[Buffer]:
    """The words of a command with their lengths; small neighbours are joined, large are not."""
    framed: list[Buffer] = []
    small = bytearray(b"*%d\r\n" % len(words))
    for word in words:
        parts = word if isinstance(word, tuple) else (word,)
        small += b"$%d\r\n" % sum(map(len, parts))
        for part in parts:
            if len(part) > _LINE_BYTES_MAX:
                framed += [bytes(small), part]
                small.clear()
            else:
                small += part
        small += b"\r\n"
    return [*framed, bytes(small)]
