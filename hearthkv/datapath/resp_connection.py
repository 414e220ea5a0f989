"""One connection of an event loop to a Redis server, with any number of requests outstanding."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hearthkv.core.errors import HearthKVError, StoreUnavailableError
from hearthkv.datapath.redis_place import RedisPlace
from hearthkv.datapath.resp_sender import Sender, SocketSender, TransportSender
from hearthkv.datapath.resp_wire import Buffer, ReplyReader, Request, Word

_SEND_BUFFER_BYTES: Final = 1024 * 1024  # TCP finds its own size
_READS_MAX: Final = 4  # more of one connection in one round of the loop

Finished = Callable[[Request], None]
"""Called once when a request has its reply, in the midst of the loop's reading: it must be short
and must not raise."""


class RespConnection(asyncio.BufferedProtocol):
    """
    The loop reads straight into the memory of the requests, and sends straight out of it.

    A request that its caller gives up is withdrawn: from then on its memory is neither read nor
    written. If its command was not wholly sent the connection is closed, which fails the others
    on it; else its reply is read over while others wait, and then the connection is closed too.
    So a connection on which something was given up never serves anything new.
    """

    def __init__(self) -> None:
        self.is_usable = True
        """False once it takes no new requests."""

        self.size_bytes = 0
        """Of all outstanding requests."""

        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None  # None where TLS stands between
        self._sender: Sender | None = None
        self._reader = ReplyReader()
        self._asked_bytes = 0
        self._outstanding: dict[Request, _Started] = {}
        self._withdrawn: set[Request] = set()

    @classmethod
    async def open(cls, place: RedisPlace) -> "RespConnection":
        """
        Connect and log in.

        Raises:
            OSError: If nobody listens there, or its certificate is not trusted.
            RespError: If the server does not let us in.
            StoreUnavailableError: If it hangs up.
        """
        loop = asyncio.get_running_loop()
        if place.path:
            _, connection = await loop.create_unix_connection(cls, place.path)
        else:
            tls = tls_context(place)
            _, connection = await loop.create_connection(cls, place.host, place.port, ssl=tls)
        try:
            for words in login_words(place):
                await connection.call(words)
        except BaseException:
            connection.close()
            raise
        return connection

    def start(self, requests: Sequence[tuple[Request, Finished]]) -> None:
        """
        Send requests by as few calls as it takes.

        Each one's `finished` is called when it has its reply, perhaps before this ends.
        """
        assert self.is_usable
        assert self._sender is not None
        end = self._sender.queued_bytes
        commands: list[Buffer] = []
        for request, finished in requests:
            self._reader.expect(request)
            self.size_bytes += request.size_bytes
            end += sum(map(len, request.command))
            self._outstanding[request] = _Started(end, finished)
            commands += request.command
        self._sender.send(commands)

    def withdraw(self, request: Request) -> None:
        """Read and write the memory of a request no more; `finished` may still be called."""
        if request not in self._outstanding:
            return
        self.is_usable = False
        self._withdrawn.add(request)
        if self._is_sent(request) and len(self._withdrawn) < len(self._outstanding):
            self._reader.withdraw(request)
        else:
            self.close()

    async def call(self, words: Sequence[Word]) -> bytes | None:
        """
        Send a small command and return its reply: a line, a short value, or None for neither.

        Raises:
            RespError: If the server answers with an error.
            StoreUnavailableError: If the connection is lost.
        """
        if not self.is_usable:
            raise StoreUnavailableError("the connection is lost")
        request = Request(words)
        done = asyncio.Event()
        self.start([(request, lambda _: done.set())])
        try:
            await done.wait()
        finally:
            self.withdraw(request)
        if isinstance(request.reply, HearthKVError):
            raise request.reply
        return request.reply

    def close(self, trouble: HearthKVError | None = None) -> None:
        """Cut the connection; what is outstanding fails."""
        self._cut()
        self._settle(self._reader.fail(trouble or StoreUnavailableError("the connection is cut")))

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if transport.get_extra_info("sslcontext") is None:
            # A descriptor of its own, for the loop watches the transport's on its behalf only.
            watched = transport.get_extra_info("socket").fileno()
            self._socket = socket.socket(fileno=os.dup(watched))
            if self._socket.family == socket.AF_UNIX:
                # The kernel takes a block in one or two rounds of the loop, not in five a MiB.
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            self._sender = SocketSender(self._socket, self._lose)
        else:
            self._sender = TransportSender(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits for a reply."""
        self._lose(exc)

    def pause_writing(self) -> None:
        """Wait until the server has taken what was written."""
        assert self._sender is not None
        self._sender.pause()

    def resume_writing(self) -> None:
        """Go on writing."""
        assert self._sender is not None
        self._sender.resume()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # what is wanted is known
        """Return where the next bytes belong."""
        buffer = self._reader.buffer()
        self._asked_bytes = len(buffer)
        return buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take in bytes that lie where they belong."""
        reads_left = _READS_MAX
        is_full = self._advance(nbytes)
        # Where a read got all that it asked for there is more, mostly, and to fetch it at once
        # spares a round of the loop: a head comes with the beginning of its payload.
        while is_full and reads_left and self._socket is not None and self._outstanding:
            reads_left -= 1
            try:
                nbytes = self._socket.recv_into(self.get_buffer(-1))
            except OSError:
                return  # nothing yet; and of anything else the loop tells
            if not nbytes:
                return
            is_full = self._advance(nbytes)

    def eof_received(self) -> bool:
        """Let the connection close."""
        return False

    def _lose(self, error: Exception | None) -> None:
        reason = f": {error}" if error else ""
        self.close(StoreUnavailableError(f"the connection was lost{reason}"))

    def _advance(self, nbytes: int) -> bool:
        """Take in bytes; whether they were all that was asked for, and more is wanted."""
        finished = self._reader.advance(nbytes)
        if self._reader.trouble is not None or not all(map(self._is_sent, finished)):
            # A server that answers before it has the whole command does not take the rest.
            self._cut()
        self._settle(finished)
        if not self.is_usable and len(self._withdrawn) == len(self._outstanding):
            self.close()
        return nbytes == self._asked_bytes

    def _cut(self) -> None:
        self.is_usable = False
        if self._sender is not None:
            self._sender.close()
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._transport is not None:
            self._transport.abort()

    def _settle(self, requests: list[Request]) -> None:
        for request in requests:
            self.size_bytes -= request.size_bytes
            self._withdrawn.discard(request)
            self._outstanding.pop(request).finished(request)

    def _is_sent(self, request: Request) -> bool:
        assert self._sender is not None
        return self._outstanding[request].command_end <= self._sender.sent_bytes


@dataclass(frozen=True, slots=True)
class _Started:
    """A request that waits for its reply."""

    command_end: int
    """How many bytes the connection has sent once the command is."""

    finished: Finished


def login_words(place: RedisPlace) -> list[Sequence[Word]]:
    """Return the commands that open a session."""
    commands: list[Sequence[Word]] = []
    if place.password or place.username:
        user = [place.username.encode()] if place.username else []
        commands.append((b"AUTH", *user, place.password.encode()))
    if place.database:
        commands.append((b"SELECT", b"%d" % place.database))
    return commands


def tls_context(place: RedisPlace) -> ssl.SSLContext | None:
    """
    Return how the server is to prove itself; None where it need not.

    Raises:
        OSError: If its file of certificates can't be read or holds none.
    """
    return ssl.create_default_context(cafile=place.ca_file or None) if place.is_tls else None
