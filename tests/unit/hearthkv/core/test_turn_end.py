"""How a turn ended."""

import pytest

from hearthkv.core.errors import BadRequestError
from hearthkv.core.session_id import SessionId
from hearthkv.core.turn_end import RETURNS_IN_S_MAX, EndedTurn, TurnEnd


def test_a_turn_end_is_named_as_clients_write_it():
    assert [end.value for end in TurnEnd] == ["unknown", "tool_call", "answer", "final"]


@pytest.mark.parametrize("returns_in_s", [None, 0.0, RETURNS_IN_S_MAX])
def test_a_turn_may_say_when_the_next_one_comes(returns_in_s: float | None):
    turn = EndedTurn(SessionId("s"), TurnEnd.TOOL_CALL, returns_in_s)
    assert turn.returns_in_s == returns_in_s


@pytest.mark.parametrize("returns_in_s", [-1.0, RETURNS_IN_S_MAX + 1, float("nan")])
def test_an_impossible_time_is_refused(returns_in_s: float):
    with pytest.raises(BadRequestError, match=r"returns_in is .* must be in 0\.\.3600 s"):
        EndedTurn(SessionId("s"), TurnEnd.ANSWER, returns_in_s)
