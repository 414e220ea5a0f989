"""What was measured of a router, and what it is held against. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles

CALL_RATIO_MAX = 1.3
"""How much longer a placement may take than an empty call of the same run, at the median."""

DECISION_US_MAX = 50.0
DECISION_NODES = 64
"""The number of nodes for which that is the goal; at others the time is told all the same."""


@dataclass(frozen=True, slots=True)
class CallTimes:
    """Calls of one kind."""

    p50_us: float
    p99_us: float
    per_s: float

    @classmethod
    def of(cls, seconds: Sequence[float], per_s: float) -> "CallTimes":
        """Sum samples up; there are at least two."""
        return cls(1e6 * median(seconds), 1e6 * quantiles(seconds, n=100)[98], per_s)


@dataclass(frozen=True, slots=True)
class Calls:
    """Placements, and empty calls in turns with them."""

    route: CallTimes
    empty: CallTimes

    @property
    def ratio(self) -> float:
        """The median of a placement over that of an empty call."""
        return self.route.p50_us / self.empty.p50_us


@dataclass(frozen=True, slots=True)
class Decision:
    """A placement without gRPC: decoding, index, rule and encoding."""

    known_us: float
    known_p99_us: float
    new_us: float
    """Of a session that had no turn yet."""

    new_p99_us: float


@dataclass(frozen=True, slots=True)
class Row:
    """One number of nodes and one length of a prompt."""

    nodes: int
    prompt_tokens: int
    calls: Calls
    decision: Decision

    @property
    def is_call_fast(self) -> bool:
        """Whether the goal for calls is met."""
        return self.calls.ratio <= CALL_RATIO_MAX

    @property
    def is_decision_fast(self) -> bool | None:
        """Whether the goal for decisions is met; None where there is none."""
        if self.nodes != DECISION_NODES:
            return None
        return max(self.decision.known_us, self.decision.new_us) <= DECISION_US_MAX


@dataclass(frozen=True, slots=True)
class Index:
    """The memory of an index."""

    nodes: int
    keys: int
    grown_bytes: int

    @property
    def bytes_per_key(self) -> float:
        """Resident bytes that the router grew by, for a block on a node."""
        return self.grown_bytes / self.keys


@dataclass(frozen=True, slots=True)
class PeerRow:
    """What another router takes for one length of a prompt."""

    name: str
    prompt_tokens: int
    p50_us: float
    p99_us: float


def to_json(
    rows: Sequence[Row],
    indexes: Sequence[Index],
    peers: Sequence[PeerRow],
    circumstances: Mapping[str, object],
) -> str:
    """Return the whole report."""
    report = {
        **circumstances,
        "rows": [
            {
                **asdict(row),
                "ratio": row.calls.ratio,
                "is_call_fast": row.is_call_fast,
                "is_decision_fast": row.is_decision_fast,
            }
            for row in rows
        ],
        "indexes": [{**asdict(index), "bytes_per_key": index.bytes_per_key} for index in indexes],
        "peers": [asdict(peer) for peer in peers],
    }
    return json.dumps(report, indent=2) + "\n"
