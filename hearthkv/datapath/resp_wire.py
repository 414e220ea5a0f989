"""
RESP2 without a socket: how requests are framed, and where the bytes of replies belong. Pure.

A Redis client usually reads a reply into a buffer of its own and copies it out, twice or more;
for blocks of megabytes those copies are most of the work. A `ReplyReader` is asked before each
read where the next bytes belong, and answers with the caller's own memory wherever it can::

    view = reader.buffer()
    count = socket.recv_into(view)
    finished = reader.advance(count)

Replies come in the order of the requests, any number of which may be outstanding.
"""

import enum
from collections import deque
from collections.abc import Sequence
from typing import Final

from hearthkv.core.errors import FrameError, HearthKVError, RespError, StoreUnavailableError

VALUE_BYTES_MAX: Final = 512 * 1024 * 1024
"""What Redis itself allows."""

SHORT_BYTES_MAX: Final = 64 * 1024
"""A value that is not read into the caller's memory."""

HEAD_BYTES_MAX: Final = 512

_LINE_BYTES_MAX: Final = 1024
_LINE_STEP_BYTES: Final = 64  # less than the line and the head of a block behind a short reply
_SCRATCH_BYTES: Final = 2 * _LINE_BYTES_MAX
_SKIPPED_BYTES: Final = 64 * 1024
_JOINED_BYTES_MAX: Final = 1024  # a buffer up to this is cheaper copied than sent by itself

Buffer = bytes | bytearray | memoryview
Word = Buffer | tuple[Buffer, ...]
"""A word of a command; several buffers are sent as one word, without being joined."""

Reply = bytes | HearthKVError | None
"""A line, a value or the head of one; an error; None for a name that is not there."""

_EMPTY: Final = memoryview(b"")


class Request:
    """One command, and what becomes of it. Used once."""

    __slots__ = ("command", "first_bytes", "head_bytes", "payload", "reply", "size_bytes")

    def __init__(
        self, words: Sequence[Word], *, head_bytes: int = 0, payload: memoryview | None = None
    ) -> None:
        self.command = framed(words)
        self.head_bytes = head_bytes
        self.payload = payload
        """Where the value goes from `head_bytes` on; None for a short reply."""

        self.reply: Reply = None
        """Meaningful once the request is finished."""

        if payload is None:
            self.first_bytes = _LINE_STEP_BYTES
            self.size_bytes = sum(map(len, self.command))
        else:
            value_bytes = head_bytes + len(payload)
            self.first_bytes = len(b"$%d\r\n" % value_bytes) + head_bytes
            self.size_bytes = value_bytes


def get_request(name: bytes, *, head_bytes: int, payload: memoryview) -> Request:
    """
    Ask for a value of known length.

    The reply is the head; None where there is no such name; FrameError where the value has
    another length. Only with a head is the payload in its place.

    Args:
        name: Under which it lies.
        head_bytes: Bytes before the payload, at most HEAD_BYTES_MAX.
        payload: Writable bytes for all the rest. They may be written to until the request is
            finished or withdrawn.
    """
    assert head_bytes <= HEAD_BYTES_MAX
    return Request((b"GET", name), head_bytes=head_bytes, payload=payload)


def set_request(name: bytes, parts: tuple[Buffer, ...], *, ttl_ms: int | None = None) -> Request:
    """
    Store a value. The reply is `OK` or an error.

    Args:
        name: Under which it will lie.
        parts: The value, in pieces that must stay as they are until the request is finished.
        ttl_ms: When the server forgets it by itself; None for never.
    """
    time_to_live = () if ttl_ms is None else (b"PX", b"%d" % ttl_ms)
    return Request((b"SET", name, parts, *time_to_live))


def framed(words: Sequence[Word]) -> list[Buffer]:
    """Return a command as it goes on the wire; small neighbours are joined, large are not."""
    buffers: list[Buffer] = []
    small = bytearray(b"*%d\r\n" % len(words))
    for word in words:
        parts = word if isinstance(word, tuple) else (word,)
        small += b"$%d\r\n" % sum(map(len, parts))
        for part in parts:
            if len(part) > _JOINED_BYTES_MAX:
                buffers += [bytes(small), part]
                small.clear()
            else:
                small += part
        small += b"\r\n"
    return [*buffers, bytes(small)]


class _Step(enum.Enum):
    """What comes next."""

    LINE = enum.auto()
    HEAD = enum.auto()  # of a value, read with the line where it can
    VALUE = enum.auto()  # its bytes go where they belong
    SKIP = enum.auto()  # its bytes are of no use
    END = enum.auto()  # the line end behind a value


class ReplyReader:
    """
    Takes replies in as they come.

    A value for the caller's memory comes in two kinds of reads: one small read into scratch
    memory, of just the line and the head (and the line end of the value before), then large ones
    that fill the payload. Bytes of a payload are copied only where an answer is not the one that
    was expected.
    """

    def __init__(self) -> None:
        self.trouble: HearthKVError | None = None
        """Why no further reply can be understood; None while all is well."""

        self._outstanding: deque[Request] = deque()
        self._finished: list[Request] = []
        self._step = _Step.LINE
        self._bytes = bytearray(_SCRATCH_BYTES)
        self._scratch = memoryview(self._bytes)
        self._start = 0  # what lies in scratch and was not taken yet: start <= end
        self._end = 0
        self._into = _EMPTY  # where a value goes; its last `_left` bytes are still to come
        self._left = 0
        self._reply: Reply = None  # of the request whose value is under way
        self._skipped = _EMPTY

    @property
    def outstanding(self) -> int:
        """How many replies are still to come."""
        return len(self._outstanding)

    def expect(self, request: Request) -> None:
        """Await the reply of a request that is about to be sent."""
        self._outstanding.append(request)

    def withdraw(self, request: Request) -> None:
        """Write to the memory of an outstanding request no more; its reply is read over."""
        request.command = []
        if request.payload is None or request not in self._outstanding:
            return
        request.payload = _EMPTY
        if request is self._outstanding[0] and self._step is _Step.VALUE:
            self._skip(self._left)
        elif request is self._outstanding[0] and self._step is _Step.HEAD:
            self._skip(self._left + request.head_bytes)
            self._take_value()  # of the head, a part may be in scratch

    def buffer(self) -> memoryview:
        """Return where the next bytes belong: at least one byte, and at most what is wanted."""
        if self._step is _Step.VALUE:
            return self._into[-self._left :]
        if self._step is _Step.SKIP:
            return self._skipped[: self._left]
        held = self._end - self._start
        if self._start:
            self._bytes[:held] = self._bytes[self._start : self._end]
            self._start, self._end = 0, held
        missing = self._wanted() - held
        return self._scratch[held : held + (missing if missing > 0 else _LINE_STEP_BYTES)]

    def advance(self, count: int) -> list[Request]:
        """Take in the first `count` bytes of `buffer()`; return the requests that this ends."""
        if self._step in {_Step.VALUE, _Step.SKIP}:
            self._left -= count
        else:
            self._end += count
        while self.trouble is None and self._take():
            pass
        finished, self._finished = self._finished, []
        return finished

    def fail(self, trouble: HearthKVError) -> list[Request]:
        """End all outstanding requests with an error, and return them."""
        self._break(trouble)
        finished, self._finished = self._finished, []
        return finished

    def _wanted(self) -> int:
        """Bytes in scratch that certainly are no part of a payload."""
        if not self._outstanding:
            return 1
        if self._step is _Step.HEAD:
            return self._outstanding[0].head_bytes
        if self._step is _Step.LINE:
            return self._outstanding[0].first_bytes
        return 2 + (self._outstanding[1].first_bytes if len(self._outstanding) > 1 else 0)

    def _take(self) -> bool:
        """Take what scratch holds one step further; False where it does not suffice."""
        match self._step:
            case _Step.LINE:
                return self._take_line()
            case _Step.HEAD:
                return self._take_head()
            case _Step.END:
                return self._take_end()
            case _:
                return self._take_value()

    def _take_line(self) -> bool:
        held = self._end - self._start
        if not self._outstanding:
            if held:
                self._break_off("there are bytes that nobody asked for")
            return False
        line_end = self._bytes.find(b"\r\n", self._start, self._end)
        if line_end < 0:
            if held >= _LINE_BYTES_MAX:
                self._break_off(f"a line has over {_LINE_BYTES_MAX} bytes")
            return False
        line = bytes(self._scratch[self._start : line_end])
        self._start = line_end + 2
        kind, text = line[:1], line[1:]
        request = self._outstanding[0]
        if kind == b"$":
            self._begin_value(request, text)
        elif kind == b"-":
            self._finish(RespError(text.decode(errors="replace")))
        elif kind in {b"+", b":"} and request.payload is None:
            self._finish(text)
        else:
            self._break_off(f"a reply begins with {line[:16]!r}")
        return True

    def _begin_value(self, request: Request, text: bytes) -> None:
        if text == b"-1":
            self._finish(None)
            return
        if not text.isdigit() or len(text) > 9 or int(text) > VALUE_BYTES_MAX:
            self._break_off(f"a value is said to have {text[:16]!r} bytes")
            return
        size = int(text)
        if request.payload is None:
            self._begin_short_value(size)
        elif size != request.size_bytes:
            self._reply = FrameError(f"value is {size} bytes, must be {request.size_bytes}")
            self._skip(size)
        elif len(request.payload) != size - request.head_bytes:
            self._skip(size)  # it was withdrawn
        else:
            self._step = _Step.HEAD
            self._into = request.payload
            self._left = len(request.payload)

    def _begin_short_value(self, size: int) -> None:
        if size > SHORT_BYTES_MAX:
            self._reply = FrameError(f"value is {size} bytes, must be at most {SHORT_BYTES_MAX}")
            self._skip(size)
            return
        value = bytearray(size)
        self._step, self._into, self._left = _Step.VALUE, memoryview(value), size

    def _take_head(self) -> bool:
        head_bytes = self._outstanding[0].head_bytes
        if self._end - self._start < head_bytes:
            return False
        self._reply = bytes(self._scratch[self._start : self._start + head_bytes])
        self._start += head_bytes
        self._step = _Step.VALUE
        return True

    def _take_value(self) -> bool:
        """Bytes of a value are in scratch only where another reply was expected."""
        taken = min(self._left, self._end - self._start)
        if taken and self._step is _Step.VALUE:
            at = len(self._into) - self._left
            self._into[at : at + taken] = self._scratch[self._start : self._start + taken]
        self._start += taken
        self._left -= taken
        if self._left:
            return False
        if self._outstanding[0].payload is None and self._step is _Step.VALUE:
            self._reply = bytes(self._into)
        self._into = _EMPTY
        self._step = _Step.END
        return True

    def _take_end(self) -> bool:
        if self._end - self._start < 2:
            return False
        found = bytes(self._scratch[self._start : self._start + 2])
        if found != b"\r\n":
            self._break_off(f"a value ends with {found!r}")
            return False
        self._start += 2
        self._finish(self._reply)
        return True

    def _skip(self, left: int) -> None:
        self._step, self._left, self._into = _Step.SKIP, left, _EMPTY
        if left and not self._skipped:
            self._skipped = memoryview(bytearray(_SKIPPED_BYTES))

    def _finish(self, reply: Reply) -> None:
        request = self._outstanding.popleft()
        request.reply = reply
        self._finished.append(request)
        self._step, self._reply = _Step.LINE, None

    def _break_off(self, reason: str) -> None:
        self._break(StoreUnavailableError(f"the server does not speak RESP: {reason}"))

    def _break(self, trouble: HearthKVError) -> None:
        self.trouble = trouble
        self._into = _EMPTY
        while self._outstanding:
            self._finish(trouble)
