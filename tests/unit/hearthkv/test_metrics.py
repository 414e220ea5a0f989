"""Metrics are declared, moved and served."""

import urllib.request

import pytest

from hearthkv.core.errors import StartupError
from hearthkv.metrics import MetricsPort, PrometheusMeters
from hearthkv.telemetry import MetricSpec

SPECS = [
    MetricSpec("counter", "loaves_total", "Loaves baked."),
    MetricSpec("counter", "crumbs_total", "Crumbs lost.", ("oven",)),
    MetricSpec("gauge", "heat_ratio", "Heat.", ("oven",)),
    MetricSpec("gauge", "ovens", "Ovens."),
    MetricSpec("histogram", "wait_seconds", "Wait.", buckets=(0.1, 1.0)),
    MetricSpec("histogram", "size_bytes", "Size.", ("oven",)),
]


@pytest.fixture
def meters() -> PrometheusMeters:
    return PrometheusMeters(SPECS)


def test_a_counter_adds_up(meters):
    meters.add("loaves_total")
    meters.add("loaves_total", 2.5)
    meters.add("crumbs_total", oven="left")
    assert meters.value("loaves_total") == 3.5
    assert meters.value("crumbs_total", oven="left") == 1
    assert meters.value("crumbs_total", oven="right") == 0


def test_a_gauge_is_what_was_set_last(meters):
    meters.set("ovens", 3)
    meters.set("heat_ratio", 0.5, oven="left")
    meters.set("heat_ratio", 0.25, oven="left")
    assert (meters.value("ovens"), meters.value("heat_ratio", oven="left")) == (3, 0.25)


def test_a_histogram_counts_by_its_own_bounds(meters):
    for seconds in (0.05, 0.5, 5):
        meters.observe("wait_seconds", seconds)
    meters.observe("size_bytes", 1, oven="left")
    assert meters.value("wait_seconds_bucket", le="0.1") == 1
    assert meters.value("wait_seconds_bucket", le="1.0") == 2
    assert meters.value("wait_seconds_count") == 3
    assert meters.value("size_bytes_sum", oven="left") == 1


def test_the_text_is_what_prometheus_reads(meters):
    meters.add("crumbs_total", 2, oven="left")
    lines = meters.text().splitlines()
    assert "# HELP crumbs_total Crumbs lost." in lines
    assert "# TYPE wait_seconds histogram" in lines
    assert 'crumbs_total{oven="left"} 2.0' in lines
    assert "loaves_total 0.0" in lines


def test_two_processes_in_one_share_nothing(meters):
    other = PrometheusMeters(SPECS)
    other.add("loaves_total")
    assert meters.value("loaves_total") == 0


@pytest.mark.parametrize("move", ["add", "set", "observe"])
def test_an_undeclared_name_is_an_error(meters, move):
    with pytest.raises(KeyError, match="no_such"):
        getattr(meters, move)("no_such", 1)


@pytest.mark.parametrize("labels", [{}, {"tier": "ssd"}, {"oven": "left", "tier": "ssd"}])
def test_undeclared_or_missing_labels_are_an_error(meters, labels):
    with pytest.raises(ValueError, match="label"):
        meters.add("crumbs_total", **labels)


def test_the_port_serves_until_it_is_closed(meters):
    meters.add("loaves_total", 7)
    port = MetricsPort(meters, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{port.port}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert b"loaves_total 7.0" in answer.read()
    finally:
        port.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=10)


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", None), ("127.0.0.1", 70_000), ("192.0.2.1", 0)]
)
def test_a_port_that_can_not_be_opened_says_what_to_do(meters, host, port):
    first = MetricsPort(meters, "127.0.0.1", 0)
    wanted = first.port if port is None else port
    try:
        with pytest.raises(
            StartupError, match=rf"metrics port {host}:{wanted} can't be opened .*--metrics-port"
        ):
            MetricsPort(meters, host, wanted)
    finally:
        first.close()
