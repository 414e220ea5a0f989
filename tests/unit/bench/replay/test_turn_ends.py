"""What a client would have told."""

from bench.replay.traces import Request, Trace
from bench.replay.turn_ends import final_ends, guessed_ends, no_ends
from hearthkv.core.turn_end import TurnEnd


def trace_with(*idle_s: float | None, thread: str = "a") -> Trace:
    requests = (Request(at, 16, ((0, 1),), thread, idle_s=each) for at, each in enumerate(idle_s))
    return Trace("small", 16, tuple(requests))


def test_nothing_is_said_where_threads_have_no_names():
    trace = trace_with(1.0, None, thread="")
    assert no_ends(trace) == final_ends(trace) == guessed_ends(trace) == [None, None]


def test_the_last_turn_of_a_thread_is_final():
    assert final_ends(trace_with(1.0, None)) == [TurnEnd.UNKNOWN, TurnEnd.FINAL]


def test_a_long_pause_is_mostly_called_an_answer_and_a_short_one_a_tool_call():
    short = guessed_ends(trace_with(*[5.0] * 400))
    long = guessed_ends(trace_with(*[500.0] * 400))
    assert 340 < short.count(TurnEnd.TOOL_CALL) < 400
    assert 320 < long.count(TurnEnd.ANSWER) < 400


def test_the_same_trace_is_told_the_same():
    trace = trace_with(*[5.0, 500.0] * 50)
    assert guessed_ends(trace) == guessed_ends(trace)
