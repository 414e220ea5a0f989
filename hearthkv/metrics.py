"""
Meters over prometheus_client, and the port where Prometheus reads them.

Apart from `telemetry`, so that a client process needs no metrics library.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hearthkv.core.errors import StartupError
from hearthkv.telemetry import MetricSpec

_Metric = TypeVar("_Metric", Counter, Gauge, Histogram)
_Place = tuple[str, tuple[tuple[str, str], ...]]
"""Name and labels; those declared with labels stand there without them too."""


class PrometheusMeters:
    """
    Declared metrics of one process, in a registry of their own.

    An undeclared name or label is an error of the caller and raises KeyError or ValueError.
    """

    def __init__(self, specs: Iterable[MetricSpec]) -> None:
        self.registry = CollectorRegistry()
        self._counters: dict[_Place, Counter] = {}
        self._gauges: dict[_Place, Gauge] = {}
        self._histograms: dict[_Place, Histogram] = {}
        for spec in specs:
            self._declare(spec)

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        _metric(self._counters, name, labels).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        _metric(self._gauges, name, labels).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Put a value into a histogram."""
        _metric(self._histograms, name, labels).observe(value)

    def text(self) -> str:
        """All metrics in Prometheus' text format."""
        return prometheus_client.generate_latest(self.registry).decode()

    def value(self, name: str, **labels: str) -> float:
        """Current value of a counter or gauge; 0 where it was never moved."""
        return self.registry.get_sample_value(name, labels) or 0.0

    def _declare(self, spec: MetricSpec) -> None:
        if spec.kind == "counter":
            self._counters[spec.name, ()] = Counter(
                spec.name, spec.help, spec.labels, registry=self.registry
            )
        elif spec.kind == "gauge":
            self._gauges[spec.name, ()] = Gauge(
                spec.name, spec.help, spec.labels, registry=self.registry
            )
        else:
            self._histograms[spec.name, ()] = Histogram(
                spec.name,
                spec.help,
                spec.labels,
                registry=self.registry,
                buckets=spec.buckets or Histogram.DEFAULT_BUCKETS,
            )


def _metric(metrics: dict[_Place, _Metric], name: str, labels: Mapping[str, str]) -> _Metric:
    """Return a metric with its labels; to look these up there takes as long as to place a turn."""
    place = (name, tuple(labels.items()))
    metric = metrics.get(place)
    if metric is None:
        metric = metrics[place] = metrics[name, ()].labels(**labels)
    return metric


class MetricsPort:
    """
    Serves `/metrics` from a thread of its own until it is closed.

    Raises:
        StartupError: If the port is taken; says which one and what to do.
    """

    def __init__(self, meters: PrometheusMeters, host: str, port: int) -> None:
        try:
            self._server, self._thread = prometheus_client.start_http_server(
                port, addr=host, registry=meters.registry
            )
        except (OSError, OverflowError) as error:  # the latter where a port is over 65535
            raise StartupError(
                f"metrics port {host}:{port} can't be opened ({error}): "
                f"choose another with --metrics-port, or 0 for any free one"
            ) from error

    @property
    def port(self) -> int:
        """The port that is open."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop serving and wait for the thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
