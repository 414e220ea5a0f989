"""Tests of hearthkv/client/events.py."""

from hearthkv.client.events import CorruptBlockDropped, PeerFailed
from hearthkv.telemetry import render


class Counted:
    """Meters that write down what is added."""

    def __init__(self) -> None:
        self.added: list[str] = []

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        self.added.append(name)

    def set(self, name: str, value: float, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...


def test_each_event_moves_its_metric():
    meters = Counted()
    PeerFailed("a:1", "gone", 0.5).count(meters)
    CorruptBlockDropped("a:1", 3).count(meters)
    assert meters.added == ["client_peer_failures_total", "client_corrupt_blocks_total"]


def test_an_event_is_a_line():
    assert (
        render(PeerFailed("a:1", "gone", 0.5)) == "PeerFailed address=a:1 error=gone cooldown_s=0.5"
    )
