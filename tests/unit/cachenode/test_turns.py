"""Tests of `cachenode.turns`: who is hinted with what, and who is lifted when."""

from collections.abc import Iterable

import pytest

from cachenode.block import Block
from cachenode.event_log import EventLog
from cachenode.eviction.lru_with_media_priority import LruWithMediaPriority
from cachenode.holdings import Holdings
from cachenode.prefetch import Prefetch
from cachenode.tiering import Tiering
from cachenode.turns import LEAD_S, TOOL_CALL_S, Turns
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import EndedTurn, TurnEnd
from tests.unit.cachenode.catalog_kit import hold, key, limits

S, T = SessionId("s"), SessionId("t")


class Hinted(LruWithMediaPriority[Block]):
    """A policy that remembers its hints, by the numbers of the blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.hints: list[tuple[list[int], TurnEnd, int]] = []

    def hinted(self, prompt: Iterable[Block], turn_end: TurnEnd, turn_count: int) -> None:
        numbers = [int.from_bytes(block.key, "big") for block in prompt]
        self.hints.append((numbers, turn_end, turn_count))


class Bench:
    """Turns over a few blocks, most of them on the SSD."""

    def __init__(self, sessions_max: int = 10) -> None:
        self.policy = Hinted()
        self.holdings = Holdings(
            dram=limits(100), ssd=limits(100), policy=self.policy, events=EventLog()
        )
        self.prefetch = Prefetch(self.holdings, Tiering(self.holdings, 1.0))
        self.turns = Turns(self.holdings, self.prefetch, sessions_max)

    def hold(self, *numbers: int, after: int = 0, tier: Tier = Tier.SSD) -> Block:
        for number in numbers:
            block = hold(self.holdings, number, after, tier)
            after = number
        return block

    def use(self, session_id: SessionId, *numbers: int, after: int = 0) -> None:
        """Let a session have a prompt whose last blocks are these."""
        self.holdings.tails.note(session_id, self.hold(*numbers, after=after))

    def end(
        self, session_id: SessionId, end: TurnEnd, returns_in_s: float | None = None, now: float = 0
    ) -> None:
        self.turns.end(EndedTurn(session_id, end, returns_in_s), now)

    def lifted(self) -> list[int]:
        """Blocks whose move to DRAM is planned now."""
        moves = self.prefetch.plan(100)
        return [int.from_bytes(move.target.key, "big") for move in moves]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("end", TurnEnd)
def test_the_policy_is_told_of_a_prompt_from_its_last_block_to_its_first(bench: Bench, end):
    bench.use(S, 1, 2, 3)
    bench.end(S, end)
    assert bench.policy.hints == [([3, 2, 1], end, 1)]


def test_turns_are_counted_by_session_until_its_end(bench: Bench):
    bench.use(S, 1)
    bench.use(T, 2)
    for session_id in (S, S, T):
        bench.end(session_id, TurnEnd.TOOL_CALL)
    bench.end(S, TurnEnd.FINAL)
    bench.end(S, TurnEnd.ANSWER)
    assert [count for _, _, count in bench.policy.hints] == [1, 2, 1, 3, 1]


def test_the_counts_of_the_oldest_sessions_are_forgotten():
    bench = Bench(sessions_max=1)
    bench.use(S, 1)
    bench.use(T, 2)
    for session_id in (S, T, S):
        bench.end(session_id, TurnEnd.ANSWER)
    assert [count for _, _, count in bench.policy.hints] == [1, 1, 1]


def test_what_others_build_upon_is_not_hinted(bench: Bench):
    bench.use(S, 1, 2, 3, 4)
    bench.use(T, 5, after=2)
    bench.end(S, TurnEnd.FINAL)
    assert bench.policy.hints == [([4, 3], TurnEnd.FINAL, 1)]


def test_a_prompt_that_ends_within_that_of_another_is_not_hinted_there(bench: Bench):
    bench.use(T, 1, 2)
    bench.use(S, 3, 4, after=2)
    bench.end(S, TurnEnd.FINAL)
    bench.end(T, TurnEnd.FINAL)
    assert bench.policy.hints == [([4, 3], TurnEnd.FINAL, 1), ([], TurnEnd.FINAL, 1)]


def test_the_prompt_used_last_is_meant(bench: Bench):
    bench.use(S, 1, 2)
    bench.use(S, 3)
    bench.end(S, TurnEnd.FINAL)
    assert bench.policy.hints == [([3], TurnEnd.FINAL, 1)]


def test_an_unknown_session_is_no_matter(bench: Bench):
    bench.end(S, TurnEnd.TOOL_CALL)
    assert bench.policy.hints == []
    assert bench.turns.lift_due(0) == 0


def test_after_a_tool_call_the_prompt_is_lifted_at_once_and_before_the_expected_return(
    bench: Bench,
):
    bench.hold(1, tier=Tier.DRAM)
    bench.use(S, 2, 3, after=1)
    bench.end(S, TurnEnd.TOOL_CALL)
    assert bench.turns.lift_due(0) == 2
    assert bench.turns.lift_due(TOOL_CALL_S - LEAD_S - 1) == 0
    assert bench.turns.lift_due(TOOL_CALL_S - LEAD_S) == 2  # still on their way: joined
    assert bench.lifted() == [2, 3]
    assert bench.turns.lift_due(1000) == 0


@pytest.mark.parametrize("end", [TurnEnd.ANSWER, TurnEnd.UNKNOWN], ids=lambda end: end.value)
def test_another_end_lifts_nothing_unless_the_return_is_known(bench: Bench, end: TurnEnd):
    bench.use(S, 1)
    bench.end(S, end)
    assert bench.turns.lift_due(1000) == 0
    bench.end(S, end, returns_in_s=60.0, now=1000)
    assert bench.turns.lift_due(1000 + 60 - LEAD_S - 1) == 0
    assert bench.turns.lift_due(1000 + 60 - LEAD_S) == 1


def test_a_return_that_is_known_replaces_the_expected_one(bench: Bench):
    bench.use(S, 1)
    bench.end(S, TurnEnd.TOOL_CALL, returns_in_s=LEAD_S / 2)
    assert bench.turns.lift_due(0) == 1
    assert bench.turns.lift_due(1000) == 0


def test_a_session_that_ended_is_not_lifted(bench: Bench):
    bench.use(S, 1)
    bench.end(S, TurnEnd.TOOL_CALL)
    bench.end(S, TurnEnd.FINAL, returns_in_s=60.0)
    assert bench.turns.lift_due(1000) == 0


def test_a_session_that_is_back_is_not_lifted(bench: Bench):
    bench.use(S, 1)
    bench.end(S, TurnEnd.TOOL_CALL)
    bench.turns.begin(S)
    bench.turns.begin(T)
    assert bench.turns.lift_due(1000) == 0


def test_a_session_whose_blocks_went_is_no_matter(bench: Bench):
    bench.use(S, 1)
    bench.end(S, TurnEnd.TOOL_CALL)
    block = bench.holdings.tree.find(b"n" * 16, key(1))
    assert block is not None
    bench.holdings.remove(block)
    assert bench.turns.lift_due(0) == 0
