"""Decide whether a demo has shown what it should. Pure."""

from hearthkv.demo.turn_record import DemoResult, SessionResult, TurnRecord

HIT_RATIO_MIN = 0.85
"""Least share of the prompts, from round 2 on, that must come from the cache."""

FAILOVER = "failover"


def faults(result: SessionResult) -> list[str]:
    """Return what went wrong, one line each; nothing where the demo holds what it promises."""
    found = _session_faults(result)
    return found + _misfortune_faults(result) if isinstance(result, DemoResult) else found


def _session_faults(result: SessionResult) -> list[str]:
    found = [
        f"round {off.round} answers {on.text!r} with the cache and {off.text!r} without it; "
        "they must be the same"
        for off, on in zip(result.without_cache, result.with_cache, strict=True)
        if off.text != on.text
    ]
    found += [
        f"round {turn.round} took {turn.cached.total} tokens from the cache, "
        "must be 0 in the pass without it"
        for turn in result.without_cache
        if turn.cached.total
    ]
    if result.later_hit_ratio < HIT_RATIO_MIN:
        found.append(_too_cold("from round 2 on", result.later_hit_ratio))
    return found


def _misfortune_faults(result: DemoResult) -> list[str]:
    found = _faults_after(result.after_restart, "after the engine's restart")
    if result.after_restart.cached.hbm:
        found.append(
            f"after the engine's restart {result.after_restart.cached.hbm} tokens came from HBM, "
            "must be 0 in a new process"
        )
    if result.after_failure.reason != FAILOVER:
        found.append(
            f"after the node's failure the reason is {result.after_failure.reason!r}, "
            f"must be {FAILOVER!r}"
        )
    found += _faults_after(result.warm_again, "after the failover")
    return found


def _faults_after(turn: TurnRecord, when: str) -> list[str]:
    return [_too_cold(when, turn.hit_ratio)] if turn.hit_ratio < HIT_RATIO_MIN else []


def _too_cold(when: str, ratio: float) -> str:
    return f"cache_hit_ratio {when} is {ratio:.3f}, must be at least {HIT_RATIO_MIN}"
