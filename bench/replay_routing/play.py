"""Plays a trace on some nodes, with one way to choose, and reckons what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from bench.replay.prefix_runs import PrefixRuns, cut
from bench.replay.traces import Trace
from bench.replay_routing.contenders import CONTENDERS, POOLED, RealRouter
from bench.replay_routing.conversations import sessions_of
from bench.replay_routing.nodes import ReplayedNode, RunKeys, Turn


@dataclass(frozen=True, slots=True)
class Case:
    """A cell of the table."""

    contender: str
    node_count: int
    capacity_percent: int
    """Of the footprint, over all nodes together."""


@dataclass(frozen=True, slots=True)
class Score:
    """What came of a case."""

    trace: str
    case: Case
    hit_percent: float
    """Prompt tokens that were not computed."""

    imbalance: float
    """Tokens computed by the node that computed most, by their mean."""

    pulled_blocks: int
    pulled_percent: float
    """Tokens that moved between nodes, of all prompt tokens."""

    reasons: Mapping[str, int]
    """Turns by why their node was chosen; empty where the router was not asked."""


def score(trace: Trace, case: Case) -> Score:
    """Play a trace from its beginning to its end."""
    prepared = _prepared(trace)
    runs, keys = prepared.runs, prepared.keys
    node_count = 1 if case.contender == POOLED else case.node_count
    capacity_blocks = runs.footprint_blocks * case.capacity_percent // 100 // node_count
    nodes = [ReplayedNode(runs, keys, capacity_blocks) for _ in range(node_count)]
    contender = CONTENDERS[case.contender](nodes, keys, trace.block_tokens)
    for turn in prepared.turns:
        number, sources = contender.choose(turn)
        node = nodes[number]
        own = node.cache.held(turn.prompt)
        held = max([own, *(nodes[source].cache.held(turn.prompt) for source in sources)])
        node.tally.computed_tokens += max(turn.tokens - held * trace.block_tokens, 0)
        node.serve(turn.prompt, held - own)
        contender.note(number)
    computed = [node.tally.computed_tokens for node in nodes]
    pulled_blocks = sum(node.tally.pulled_blocks for node in nodes)
    return Score(
        trace=trace.name,
        case=case,
        hit_percent=100 * (1 - sum(computed) / trace.tokens),
        imbalance=max(computed) * len(computed) / sum(computed),
        pulled_blocks=pulled_blocks,
        pulled_percent=100 * pulled_blocks * trace.block_tokens / trace.tokens,
        reasons=dict(contender.reasons) if isinstance(contender, RealRouter) else {},
    )


@dataclass(frozen=True, slots=True)
class _Prepared:
    runs: PrefixRuns
    keys: RunKeys
    turns: list[Turn]


@lru_cache(maxsize=2)
def _prepared(trace: Trace) -> _Prepared:
    runs = cut(trace)
    rows = zip(trace.requests, runs.prompts, sessions_of(trace, runs), strict=True)
    turns = [Turn(session, prompt, row.tokens, row.at_s) for row, prompt, session in rows]
    return _Prepared(runs, RunKeys(runs, trace.block_tokens), turns)
