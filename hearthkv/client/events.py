"""What a client tells its log. Declares events only."""

import logging
from dataclasses import dataclass
from typing import ClassVar

from hearthkv.telemetry import Meters


@dataclass(frozen=True, slots=True)
class PeerFailed:
    """A router or node can't be reached and is left alone for a while."""

    LEVEL: ClassVar[int] = logging.WARNING
    address: str
    error: str
    cooldown_s: float

    def count(self, meters: Meters) -> None:
        """Count it."""
        meters.add("client_peer_failures_total")


@dataclass(frozen=True, slots=True)
class CorruptBlockDropped:
    """The bytes of a block did not match their checksum; its node was asked to forget it."""

    LEVEL: ClassVar[int] = logging.WARNING
    address: str
    block: int

    def count(self, meters: Meters) -> None:
        """Count it."""
        meters.add("client_corrupt_blocks_total")
