"""A trace that is played on some nodes."""

import pytest

from bench.replay_routing.contenders import CONTENDERS, OURS, POOLED
from bench.replay_routing.play import Case, score
from tests.unit.bench.replay.replay_kit import lru_by_blocks, random_trace, trace_of

TRACE = random_trace(seed=5, request_count=200)


@pytest.mark.parametrize("name", CONTENDERS)
def test_no_router_hits_more_than_its_nodes_can_hold(name: str):
    scored = score(TRACE, Case(name, 4, 100))
    assert 0 < scored.hit_percent < 100
    assert 1 <= scored.imbalance <= 4
    assert (scored.pulled_blocks > 0) <= (name == OURS)


def test_the_pooled_cache_is_one_node_as_large_as_all():
    hits = lru_by_blocks(TRACE, len({b for r in TRACE.requests for b, _ in r.runs}) // 4)
    expected = 100 * sum(hits) * TRACE.block_tokens / TRACE.tokens
    scored = score(TRACE, Case(POOLED, 4, 25))
    assert scored.hit_percent == pytest.approx(expected)
    assert scored.imbalance == 1


def test_round_robin_computes_a_session_on_every_node():
    trace = trace_of([0], [0], [0], [0])
    scored = score(trace, Case("round robin", 2, 200))
    assert scored.hit_percent == 50
    assert scored.reasons == {}


def test_the_router_says_why_it_chose():
    scored = score(TRACE, Case(OURS, 4, 25))
    assert sum(scored.reasons.values()) == len(TRACE.requests)
