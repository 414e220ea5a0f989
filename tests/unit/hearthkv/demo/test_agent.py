"""An agent plays the script, goes where the router sends it, and sends what the model said."""

import pytest

from hearthkv.core.errors import PeerError
from hearthkv.core.routing import CacheHint
from hearthkv.demo.agent import Session, SessionSize
from hearthkv.demo.turn_record import TurnRecord
from tests.unit.hearthkv.demo.conftest import Stage

SIZE = SessionSize(tokens=2500, rounds=4)


async def play(session: Session) -> list[TurnRecord]:
    return [turn async for turn in session.play(SIZE)]


async def test_a_session_has_its_rounds_and_its_size(stage: Stage):
    turns = await play(Session(stage.agent, "s", CacheHint.REUSE))
    assert [turn.round for turn in turns] == [1, 2, 3, 4]
    assert 0.9 * SIZE.tokens < turns[-1].prompt_tokens <= SIZE.tokens


async def test_answers_become_part_of_the_history(stage: Stage):
    session = Session(stage.agent, "s", CacheHint.REUSE)
    turns = await play(session)
    roles = [each["role"] for each in session.history]
    assert roles == ["system", "user", *["assistant", "tool"] * 3, "assistant"]
    assert session.history[2]["content"] == turns[0].text
    assert session.history[-1]["content"] == turns[-1].text


async def test_both_passes_send_the_same_prompts(stage: Stage):
    await play(Session(stage.agent, "off", CacheHint.BYPASS))
    await play(Session(stage.agent, "on", CacheHint.REUSE))
    prompts = [request["messages"] for request in stage.engine.requests]
    assert prompts[:4] == prompts[4:]


async def test_a_turn_says_where_it_went_and_what_came_from_the_cache(stage: Stage):
    first, second, *_ = await play(Session(stage.agent, "s", CacheHint.REUSE))
    assert (first.node_id, first.reason, first.cached.total) == ("node-1", "home", 0)
    assert (second.node_id, second.reason) == ("node-1", "session")
    assert second.cached.dram == first.prompt_tokens // 16 * 16
    assert second.ttft_s < first.ttft_s


async def test_a_user_can_go_on_after_the_script(stage: Stage):
    session = Session(stage.agent, "s", CacheHint.REUSE)
    await play(session)
    turn = await session.say("Thank you.")
    assert turn.round == 5
    assert session.history[-2] == {"role": "user", "content": "Thank you."}


async def test_without_a_router_any_engine_will_do(stage: Stage):
    stage.router.is_up = False
    (turn, *_) = await play(Session(stage.agent, "s", CacheHint.REUSE))
    assert (turn.node_id, turn.reason, turn.engine_url) == ("", "", stage.url)


async def test_a_dead_engine_is_passed_over(stage: Stage):
    stage.engine_urls.insert(0, "http://127.0.0.1:1")
    assert await stage.agent.count([{"role": "user", "content": "abc"}]) > 0


async def test_without_any_engine_there_is_no_session(stage: Stage):
    stage.engine_urls.clear()
    with pytest.raises(PeerError, match="no engine is up"):
        await stage.agent.count([])


def test_a_long_session_leaves_room_for_its_answers():
    fitted = SessionSize(8000, 10).within(8192, 3)
    assert 7900 < fitted.tokens < 8192 - 3 * 24
    assert SessionSize(2500, 10).within(8192, 3).tokens == 2500
