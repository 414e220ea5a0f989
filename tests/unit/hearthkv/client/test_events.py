"""Tests of hearthkv/client/events.py."""

from hearthkv.client.events import (
    METRICS,
    ArrivalsAwaited,
    BlocksLoaded,
    BlocksTaken,
    CorruptBlockDropped,
    DirectPathClosed,
    DirectPathOpened,
    LoadDecided,
    PeerFailed,
)
from hearthkv.client.load_gate import Decision, Verdict
from hearthkv.client.load_rates import ReadPath, Source
from hearthkv.metrics import PrometheusMeters
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


def test_the_metrics_that_are_moved_are_declared():
    meters = PrometheusMeters(METRICS)
    source = Source("a:1", ReadPath.DIRECT)
    DirectPathOpened("a:1", 2).count(meters)
    DirectPathClosed("a:1", "no file", 30.0).count(meters)
    LoadDecided(source, 5, Decision(3, 1.0, Verdict.PART)).count(meters)
    BlocksLoaded("a:1", ReadPath.DIRECT, 3, 3000, 0.1).count(meters)
    BlocksTaken("a:1", ReadPath.STREAM, 4, 2).count(meters)
    ArrivalsAwaited("a:1", 7, 0.5).count(meters)
    assert meters.value("client_pulled_blocks_total") == 7
    assert meters.value("client_pull_wait_seconds_total") == 0.5
    assert meters.value("client_direct_refusals_total") == 1
    assert meters.value("client_load_decisions_total", verdict="part") == 1
    assert meters.value("client_loaded_blocks_total", path="direct") == 3
    assert meters.value("client_loaded_bytes_total", path="direct") == 3000
    assert meters.value("client_saved_blocks_total", path="stream") == 2


def test_an_event_is_a_line():
    assert (
        render(PeerFailed("a:1", "gone", 0.5)) == "PeerFailed address=a:1 error=gone cooldown_s=0.5"
    )
