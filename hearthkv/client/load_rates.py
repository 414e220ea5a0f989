"""
How fast nodes are read and engines compute: running estimates, by what was measured. Pure.

An estimate is the middle of the last few values, so a single one that is far off changes
nothing. In doubt it errs towards loading.
"""

import enum
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from hearthkv.core.tier import Tier

SAMPLES: Final = 3
"""Values that an estimate is the middle of."""

SAMPLE_BYTES_MIN: Final = 1024 * 1024
SAMPLE_S_MIN: Final = 0.02
"""A read under both is too short to tell how fast a tier is."""

PREFILL_TOKENS_MIN: Final = 128
"""A shorter prefill tells how long an engine takes to begin, not how fast it is."""

KNOWN_MAX: Final = 64
"""Sources, and namespaces, that are remembered; the one that was noted longest ago goes first."""


class ReadPath(enum.Enum):
    """How bytes come to the client."""

    DIRECT = "direct"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Source:
    """A node, and how it is read; each has figures of its own."""

    address: str
    path: ReadPath


@dataclass(frozen=True, slots=True)
class ReadSample:
    """What one load took."""

    size_bytes: Mapping[Tier, int]
    """By tier; what never came is not in it."""

    latency_s: float
    """Before the bytes came."""

    transfer_s: float
    """While they came."""

    @property
    def is_telling(self) -> bool:
        """Whether anything can be learned from it."""
        size_bytes = sum(self.size_bytes.values())
        is_long = size_bytes >= SAMPLE_BYTES_MIN or self.transfer_s >= SAMPLE_S_MIN
        return is_long and size_bytes > 0 and self.transfer_s > 0


class Recent:
    """The last values of one figure."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=SAMPLES)

    def add(self, value: float) -> None:
        """Take a value in; the oldest goes."""
        self._values.append(value)

    @property
    def low(self) -> float:
        """The middle value; of two, the lower."""
        return sorted(self._values)[(len(self._values) - 1) // 2]

    @property
    def high(self) -> float:
        """The middle value; of two, the higher."""
        return sorted(self._values)[len(self._values) // 2]


class SourceRates:
    """How fast one source is, and when its tiers were read last."""

    def __init__(self) -> None:
        self._latency = Recent()
        self._rates: dict[Tier, Recent] = {}
        self._last_s: dict[Tier, float] = {}

    @property
    def latency_s(self) -> float:
        """Seconds before bytes come; of two, the shorter."""
        return self._latency.low

    @property
    def by_tier(self) -> dict[Tier, float]:
        """Bytes a second of the tiers that were read; of two, the higher."""
        return {tier: recent.high for tier, recent in self._rates.items()}

    def add(self, sample: ReadSample, now_s: float) -> None:
        """
        Take a load in.

        Where it read several tiers, each gets its share of the time by what is known of them.
        """
        read = {tier: size for tier, size in sample.size_bytes.items() if size}
        mean = sum(read.values()) / sample.transfer_s
        known = self.by_tier
        expected_s = sum(size / known.get(tier, mean) for tier, size in read.items())
        speed_up = expected_s / sample.transfer_s
        self._latency.add(max(0.0, sample.latency_s))
        for tier in read:
            self._rates.setdefault(tier, Recent()).add(known.get(tier, mean) * speed_up)
            self._last_s[tier] = now_s

    def idle_s(self, tier: Tier, now_s: float) -> float | None:
        """Seconds since a tier was read or tried; None where it never was."""
        last_s = self._last_s.get(tier)
        return None if last_s is None else now_s - last_s

    def try_again(self, tier: Tier, now_s: float) -> None:
        """Take note that a tier is about to be tried."""
        self._last_s[tier] = now_s


class _Arrivals:
    """How fast blocks came to a node from other nodes."""

    def __init__(self) -> None:
        self.rates = Recent()
        self.last_s = 0.0

    def add(self, rate: float, now_s: float) -> None:
        """Take a rate in, in bytes a second."""
        self.rates.add(rate)
        self.last_s = now_s


class LoadRates:
    """The estimates of one client."""

    def __init__(self) -> None:
        self._prefill: _Known[bytes, Recent] = _Known()
        self._sources: _Known[Source, SourceRates] = _Known()
        self._arrivals: _Known[str, _Arrivals] = _Known()

    def note_prefill(self, namespace_id: bytes, tokens: int, seconds: float) -> None:
        """Take note that an engine computed the KV of `tokens` tokens in `seconds`."""
        if tokens >= PREFILL_TOKENS_MIN and seconds > 0:
            self._prefill.entry(namespace_id, Recent).add(tokens / seconds)

    def note_read(self, source: Source, sample: ReadSample, now_s: float) -> None:
        """Take note of a load; one that is too short to tell anything is passed over."""
        if sample.is_telling:
            self._sources.entry(source, SourceRates).add(sample, now_s)

    def note_arrivals(self, address: str, size_bytes: int, seconds: float, now_s: float) -> None:
        """Take note of how fast a node got blocks from another one; too few tell nothing."""
        if size_bytes > 0 and (size_bytes >= SAMPLE_BYTES_MIN or seconds >= SAMPLE_S_MIN):
            self._arrivals.entry(address, _Arrivals).add(size_bytes / max(seconds, 1e-9), now_s)

    def arrival_rate(self, address: str, now_s: float, age_s_max: float) -> float | None:
        """Bytes a second, of two the higher; None where nothing arrived in `age_s_max` seconds."""
        arrivals = self._arrivals.get(address)
        is_fresh = arrivals is not None and now_s - arrivals.last_s < age_s_max
        return arrivals.rates.high if arrivals is not None and is_fresh else None

    def prefill_rate(self, namespace_id: bytes) -> float | None:
        """Tokens a second, of two the lower; None where no prefill was told of."""
        recent = self._prefill.get(namespace_id)
        return recent.low if recent else None

    def source(self, source: Source) -> SourceRates | None:
        """How fast a source is; None where it was not read yet."""
        return self._sources.get(source)


Name = TypeVar("Name")
Entry = TypeVar("Entry")


class _Known(Generic[Name, Entry]):
    """What is remembered by name, KNOWN_MAX at most."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Name, Entry] = OrderedDict()

    def get(self, name: Name) -> Entry | None:
        """Return what is remembered; None where nothing is."""
        return self._entries.get(name)

    def entry(self, name: Name, new: type[Entry]) -> Entry:
        """Return what is remembered, made if need be; it is the latest now."""
        entry = self._entries.pop(name, None) or new()
        self._entries[name] = entry
        if len(self._entries) > KNOWN_MAX:
            self._entries.popitem(last=False)
        return entry
