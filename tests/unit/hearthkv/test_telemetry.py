"""An event is a line and a metric."""

import enum
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.errors import SettingsError
from hearthkv.core.log_level import LOG_LEVELS
from hearthkv.core.tier import Tier, TierCounts
from hearthkv.telemetry import (
    Meters,
    NoMeters,
    Telemetry,
    configure_logging,
    render,
)


class Colour(enum.Enum):
    DARK_RED = 7


@dataclass(frozen=True, slots=True)
class LoafBaked:
    LEVEL: ClassVar[int] = logging.INFO

    name: object
    minutes: object = 1

    def count(self, meters: Meters) -> None:
        meters.add("loaves_total", oven="left")


@dataclass
class Tally:
    """Meters that remember what was moved."""

    moves: list[tuple[str, float, dict[str, str]]] = field(default_factory=list)

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        self.moves.append((name, amount, labels))

    def set(self, name: str, value: float, **labels: str) -> None:
        raise AssertionError(name)

    def observe(self, name: str, value: float, **labels: str) -> None:
        raise AssertionError(name)


def logger_at(level: int) -> logging.Logger:
    logger = logging.getLogger(f"tests.telemetry.{level}")
    logger.setLevel(level)
    return logger


def test_an_event_is_a_log_line_and_a_metric(caplog):
    tally = Tally()
    Telemetry(logger_at(logging.INFO), tally).emit(LoafBaked("rye"))
    assert caplog.messages == ["LoafBaked name=rye minutes=1"]
    assert tally.moves == [("loaves_total", 1, {"oven": "left"})]


def test_an_event_below_the_level_is_counted_and_not_logged(caplog):
    tally = Tally()
    Telemetry(logger_at(logging.WARNING), tally).emit(LoafBaked("rye"))
    assert caplog.messages == []
    assert len(tally.moves) == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, "3"),
        (1 / 3, "0.3333"),
        (1234567.0, "1.235e+06"),
        (True, "True"),
        (None, "None"),
        ("", "''"),
        ("two words", "'two words'"),
        ("a=b", "'a=b'"),
        ("line\nbreak", r"'line\nbreak'"),
        ('quo"te', "'quo\"te'"),
        (b"\x00\xff", "00ff"),
        (b"", "''"),
        (Tier.DRAM, "dram"),
        (Colour.DARK_RED, "dark_red"),
        (TierCounts(1, 2, 3), "hbm:1,dram:2,ssd:3"),
        ({"a": 1.0, Tier.SSD: Colour.DARK_RED}, "a:1,ssd:dark_red"),
    ],
)
def test_a_value_is_shown_as_one_word(value, shown):
    assert render(LoafBaked(value)) == f"LoafBaked name={shown} minutes=1"


@given(st.text(st.characters(codec=None)))
def test_an_event_is_one_printable_line_whatever_it_carries(text):
    assert render(LoafBaked(text)).isprintable()


def test_a_process_without_metrics_moves_nothing():
    meters = NoMeters()
    meters.add("x", 2, tier="ssd")
    meters.set("x", 2, tier="ssd")
    meters.observe("x", 2, tier="ssd")
    assert not vars(meters)


@contextmanager
def bare_root_logger() -> Iterator[logging.Logger]:
    """The root logger as a new process has it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    try:
        yield root
    finally:
        root.handlers = handlers
        root.setLevel(level)


@pytest.mark.parametrize("name", LOG_LEVELS)
def test_a_level_is_set_by_its_name(name):
    with bare_root_logger() as root:
        configure_logging(name)
        assert root.level == getattr(logging, name.upper())


def test_what_libraries_say_for_their_own_developers_is_not_logged():
    with bare_root_logger():
        configure_logging("debug")
        assert not logging.getLogger("asyncio").isEnabledFor(logging.DEBUG)


@pytest.mark.parametrize("name", ["", "INFO", "loud", "notset"])
def test_another_level_is_refused(name):
    with bare_root_logger() as root:
        with pytest.raises(SettingsError) as caught:
            configure_logging(name)
        assert root.handlers == []
    expected = f"log_level is {name!r}, must be one of debug, info, warning, error"
    assert str(caught.value) == expected
