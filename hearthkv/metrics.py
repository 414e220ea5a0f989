"""
Meters over prometheus_client, and the port where Prometheus reads them.

Apart from `telemetry`, so that a client process needs no metrics library.
"""

from collections.abc import Iterable

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hearthkv.core.errors import StartupError
from hearthkv.telemetry import MetricSpec


class PrometheusMeters:
    """
    Declared metrics of one process, in a registry of their own.

    An undeclared name or label is an error of the caller and raises KeyError or ValueError.
    """

    def __init__(self, specs: Iterable[MetricSpec]) -> None:
        self.registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        for spec in specs:
            self._declare(spec)

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        counter = self._counters[name]
        (counter.labels(**labels) if labels else counter).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        gauge = self._gauges[name]
        (gauge.labels(**labels) if labels else gauge).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Put a value into a histogram."""
        histogram = self._histograms[name]
        (histogram.labels(**labels) if labels else histogram).observe(value)

    def text(self) -> str:
        """All metrics in Prometheus' text format."""
        return prometheus_client.generate_latest(self.registry).decode()

    def value(self, name: str, **labels: str) -> float:
        """Current value of a counter or gauge; 0 where it was never moved."""
        return self.registry.get_sample_value(name, labels) or 0.0

    def _declare(self, spec: MetricSpec) -> None:
        if spec.kind == "counter":
            self._counters[spec.name] = Counter(
                spec.name, spec.help, spec.labels, registry=self.registry
            )
        elif spec.kind == "gauge":
            self._gauges[spec.name] = Gauge(
                spec.name, spec.help, spec.labels, registry=self.registry
            )
        else:
            self._histograms[spec.name] = Histogram(
                spec.name,
                spec.help,
                spec.labels,
                registry=self.registry,
                buckets=spec.buckets or Histogram.DEFAULT_BUCKETS,
            )


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
