"""What was measured of a session's turns, and the figures that follow from it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from hearthkv.core.tier import TierCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """One turn, as the agent saw it."""

    round: int
    """From 1 on."""

    prompt_tokens: int
    ttft_s: float
    """From sending the request to the first piece of the answer, seen by the client."""

    route_s: float
    """Asking the router, which is not part of `ttft_s`."""

    text: str
    """The model's answer."""

    cached: TierCounts
    """Prompt tokens that came from the cache."""

    node_id: str
    """Empty where no router answered."""

    reason: str
    """Why the router chose the node."""

    engine_url: str
    miss: str = ""
    """Why no more came from the cache, as the engine names it."""

    timings: Mapping[str, float] = field(default_factory=dict)
    """Where the engine spent the time to the first token, in seconds."""

    @property
    def hit_ratio(self) -> float:
        """Prompt tokens served from cache / prompt tokens."""
        return self.cached.total / self.prompt_tokens

    def as_json(self) -> dict[str, object]:
        """Return the record for a JSON file."""
        return {**asdict(self), "cached_tokens": self.cached.total, "hit_ratio": self.hit_ratio}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult:
    """The turns of one session, played without the cache and with it."""

    without_cache: tuple[TurnRecord, ...]
    with_cache: tuple[TurnRecord, ...]

    @property
    def extra(self) -> tuple[tuple[str, TurnRecord], ...]:
        """The turns after the session proper, with what had happened before each."""
        return ()

    @property
    def speedups(self) -> tuple[float, ...]:
        """TTFT without the cache / TTFT with it, round by round."""
        pairs = zip(self.without_cache, self.with_cache, strict=True)
        return tuple(off.ttft_s / on.ttft_s for off, on in pairs)

    @property
    def later_hit_ratio(self) -> float:
        """Hit ratio of round 2 and later, in tokens. The first round has nothing to find."""
        return hit_ratio(self.with_cache[1:])

    def as_json(self) -> dict[str, object]:
        """Return everything for a JSON file."""
        return {
            "hit_ratio_from_round_2": self.later_hit_ratio,
            "speedups": list(self.speedups),
            "without_cache": [turn.as_json() for turn in self.without_cache],
            "with_cache": [turn.as_json() for turn in self.with_cache],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult(SessionResult):
    """All turns of a demo: those of the session, and those after each misfortune."""

    after_restart: TurnRecord
    """The next turn, after the engine that had served the session was restarted."""

    after_failure: TurnRecord
    """The next one, after the session's node and its Redis were killed."""

    warm_again: TurnRecord
    """The one after that, on the node that took over."""

    @property
    def extra(self) -> tuple[tuple[str, TurnRecord], ...]:
        """The turns after the session proper, with what had happened before each."""
        return (
            ("engine restarted", self.after_restart),
            ("node killed", self.after_failure),
            ("nothing more", self.warm_again),
        )

    def as_json(self) -> dict[str, object]:
        """Return everything for a JSON file."""
        return {
            **SessionResult.as_json(self),  # super() knows no class with slots
            "after_restart": self.after_restart.as_json(),
            "after_failure": self.after_failure.as_json(),
            "warm_again": self.warm_again.as_json(),
        }


def hit_ratio(turns: Sequence[TurnRecord]) -> float:
    """Return the prompt tokens served from cache / prompt tokens of some turns."""
    return sum(turn.cached.total for turn in turns) / sum(turn.prompt_tokens for turn in turns)
