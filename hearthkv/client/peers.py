"""
Which peers to leave alone for now: a circuit breaker by address. Pure: the time is passed in.

A peer that failed is skipped for a cool-down that doubles with every failure, up to a maximum.
When it is over, one caller is admitted as a probe and the others go on skipping, so that a
peer that is still gone costs one deadline a cool-down, not one a caller.
"""

import re
from dataclasses import dataclass

from hearthkv.core.errors import BadInputError

TROUBLES_MAX = 1024
"""Peers in trouble that are remembered; beyond it the oldest trouble is forgotten."""

_PORT = re.compile(r"[0-9]{1,5}")
_PORT_MAX = 65_535


@dataclass(slots=True)
class _Trouble:
    failures: int
    until_s: float
    is_probed: bool = False


class Peers:
    """
    Remembers which peers failed. An address that is not remembered is well.

    Args:
        cooldown_s: Seconds after a first failure; over 0.
        cooldown_s_max: Where the doubling ends.
    """

    def __init__(self, cooldown_s: float, cooldown_s_max: float) -> None:
        self._cooldown_s = cooldown_s
        self._cooldown_s_max = cooldown_s_max
        self._troubles: dict[str, _Trouble] = {}

    def admit(self, address: str, now_s: float) -> bool:
        """
        Say whether a peer may be called now.

        An admitted caller reports `answered` or `failed`; one that can't (it was cancelled)
        costs the others no more than another cool-down.
        """
        trouble = self._troubles.get(address)
        if trouble is None:
            return True
        if now_s < trouble.until_s:
            return False
        trouble.until_s = now_s + self._length_s(trouble.failures)
        trouble.is_probed = True
        return True

    def answered(self, address: str) -> None:
        """Take note that a peer answered, whatever it said."""
        self._troubles.pop(address, None)

    def failed(self, address: str, now_s: float) -> float:
        """Take note that a peer can't be reached; return the seconds for which to skip it."""
        trouble = self._troubles.pop(address, None) or _Trouble(failures=0, until_s=now_s)
        # Calls that were under way when the peer failed are one failure, not many.
        if trouble.is_probed or now_s >= trouble.until_s:
            trouble.failures += 1
            trouble.until_s = now_s + self._length_s(trouble.failures)
            trouble.is_probed = False
        self._troubles[address] = trouble
        if len(self._troubles) > TROUBLES_MAX:
            del self._troubles[next(iter(self._troubles))]
        return trouble.until_s - now_s

    def skipped(self, now_s: float) -> frozenset[str]:
        """Addresses that `admit` would turn away now."""
        return frozenset(a for a, trouble in self._troubles.items() if now_s < trouble.until_s)

    def _length_s(self, failures: int) -> float:
        # The exponent is bounded, so that a peer that is gone for a year does not overflow it.
        return min(self._cooldown_s * 2.0 ** min(failures - 1, 63), self._cooldown_s_max)


def check_address(text: str) -> str:
    """
    Return `text` as the address of a peer.

    Raises:
        BadInputError: If it is neither `host:port` nor `unix:path`.
    """
    scheme, _, path = text.partition(":")
    if scheme == "unix" and path:
        return text
    host, _, port = text.rpartition(":")
    if not host or not _PORT.fullmatch(port) or not 1 <= int(port) <= _PORT_MAX:
        raise BadInputError(f"address is {text!r}, must be host:port or unix:path")
    return text
