"""How much may be under way at one server at a time. Pure."""

from typing import Final

REQUESTS_MAX: Final = 64

BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of values, so four blocks of 1 MiB. More of them slow a server down: with 16 large reads
outstanding, Redis 7 gave half its bandwidth for twice its memory."""

REQUESTS_MIN: Final = 2
"""Under way at least, however large, so that the server has the next when it ends the last."""


class Window:
    """Counts requests and their bytes."""

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0

    def has_room(self, size_bytes: int) -> bool:
        """Whether one more request may be sent."""
        if self.requests < REQUESTS_MIN:
            return True
        return self.requests < REQUESTS_MAX and self.bytes + size_bytes <= BYTES_MAX

    @property
    def is_low(self) -> bool:
        """Whether it is time to send more: half of it is free, and that goes by one call."""
        if self.requests < REQUESTS_MIN:
            return True
        return self.requests <= REQUESTS_MAX // 2 and self.bytes <= BYTES_MAX // 2

    def enter(self, size_bytes: int) -> None:
        """A request is sent."""
        self.requests += 1
        self.bytes += size_bytes

    def leave(self, size_bytes: int) -> None:
        """A request has its reply."""
        self.requests -= 1
        self.bytes -= size_bytes
