"""
Telemetry: an event is a log line and a metric in one.

Each package declares its events as small frozen dataclasses named noun + past verb, and emits
them through a `Telemetry`. A metric's labels are enums, never ids; ids go to the log line only.
"""

import dataclasses
import enum
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from hearthkv.core.log_level import check_log_level


class Event(Protocol):
    """Something that happened. Implemented by frozen dataclasses."""

    LEVEL: ClassVar[int]
    """Level of the log line, as of `logging`."""

    def count(self, meters: "Meters") -> None:
        """Move the metrics that stand for this event."""
        ...


class Meters(Protocol):
    """Where events move metrics."""

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        ...

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        ...

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Put a value into a histogram."""
        ...


class NoMeters:
    """Meters of a process without a metrics port: they move nothing."""

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Do nothing."""

    def set(self, name: str, value: float, **labels: str) -> None:
        """Do nothing."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Do nothing."""


class Telemetry:
    """Writes events to a log and to meters."""

    def __init__(self, logger: logging.Logger, meters: Meters) -> None:
        self.meters = meters
        self._logger = logger

    def with_meters(self, meters: Meters) -> "Telemetry":
        """Return one that writes to the same log, and moves other meters."""
        return Telemetry(self._logger, meters)

    def emit(self, event: Event) -> None:
        """Count an event, and log it where its level is enabled."""
        event.count(self.meters)
        if self._logger.isEnabledFor(event.LEVEL):
            self._logger.log(event.LEVEL, "%s", render(event))


def render(event: object) -> str:
    """Return an event as one line: its name, then its fields as key=value."""
    assert dataclasses.is_dataclass(event)
    fields = (
        f"{field.name}={_shown(getattr(event, field.name))}" for field in dataclasses.fields(event)
    )
    return " ".join((type(event).__name__, *fields))


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, bytes):
        return value.hex() or "''"
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return ",".join(f"{_shown(key)}:{_shown(item)}" for key, item in value.items())
    text = str(value)
    # One event is one line, and a value with blanks stays one value.
    return repr(text) if not text or any(not c.isprintable() or c in ' ="' for c in text) else text


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """Declares a metric, so that a misspelt name or label fails where it is first moved."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    """Namespace, what, unit; counters end in `_total`."""

    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram."""


def configure_logging(level_name: str) -> None:
    """
    Send log lines of this process to standard error, with time and level.

    Raises:
        SettingsError: If the level is none of LOG_LEVELS.
    """
    check_log_level(level_name)
    logging.basicConfig(
        level=level_name.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    for name in ("asyncio", "grpc"):
        logging.getLogger(name).setLevel(max(logging.INFO, logging.getLogger().level))
