"""What the load on a cluster tells of its calls, as lines of JSON, and figures. Not pure."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One turn of a session, from its prompt to its saved blocks. Times are of the wall clock."""

    line: str
    """Who plays the session; when one is over it begins the next."""

    session: str
    began_s: float
    node: str | None
    """The node of the turn; None where there was none."""

    reason: str | None
    blocks: int
    """Full blocks of the prompt."""

    had: int
    """How many of them the session's turns before have loaded or saved."""

    matched: int
    loaded: int
    wrong: int
    """Loaded blocks whose bytes are not what was saved."""

    saved: int
    miss: str | None
    """Why the load ended before the end of the prompt."""

    refusal: str | None
    """Why a save was refused."""

    begin_s: float
    """How long `begin_turn` took; and so on."""

    load_s: float
    finish_s: float

    @property
    def lost(self) -> int:
        """Blocks that are to be computed again, although an earlier turn had them."""
        return max(0, self.had - self.loaded)


@dataclass(frozen=True, slots=True)
class RouteRecord:
    """One bare call of Route to one router."""

    router: str
    began_s: float
    took_s: float
    node: str
    """Empty where the call failed."""

    failure: str = ""


@dataclass(frozen=True, slots=True)
class ViewRecord:
    """What routers say of nodes, and nodes of themselves, asked at almost the same time."""

    began_s: float
    states: dict[str, dict[str, int]]
    """By router, the NodeState of each node; a router that does not answer is absent."""

    indexed: dict[str, dict[str, int]]
    """By router, the blocks that it knows each node to hold."""

    held: dict[str, int]
    """By node, the blocks that it holds; a node that does not answer is absent."""

    claims: dict[str, dict[str, int]]
    """By router, the leading blocks of one session's prompt that it knows each node to hold."""

    matches: dict[str, int]
    """By node, the leading blocks of that prompt that it holds."""

    def agrees_on(self, node: str, routers: Iterable[str]) -> bool:
        """Whether these routers have a node live, and know exactly what it holds."""
        return all(
            self.states.get(router, {}).get(node) == LIVE
            and node in self.held
            and self.indexed[router].get(node) == self.held[node]
            and node in self.matches
            and self.claims.get(router, {}).get(node, 0) == self.matches[node]
            for router in routers
        )


Record = TurnRecord | RouteRecord | ViewRecord

LIVE = 1
"""NODE_STATE_LIVE"""
_KINDS: dict[str, type[Record]] = {
    kind.__name__: kind for kind in (TurnRecord, RouteRecord, ViewRecord)
}


def tell(record: Record) -> None:
    """Print a record as a line, in one piece: two processes do so."""
    sys.stdout.write(json.dumps({type(record).__name__: asdict(record)}) + "\n")
    sys.stdout.flush()


def record_of(line: str) -> Record | None:
    """Return what a line tells; None where it is no record but something else that was printed."""
    if not line.startswith("{"):
        return None
    ((name, values),) = json.loads(line).items()
    return _KINDS[name](**values)


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the sample below which this share of them lies."""
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * share))]
