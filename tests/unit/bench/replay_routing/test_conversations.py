"""Which session a request belongs to."""

from bench.replay.prefix_runs import cut
from bench.replay.traces import Request, Trace
from bench.replay_routing.conversations import sessions_of
from tests.unit.bench.replay.replay_kit import trace_of


def test_an_agent_and_its_sub_agents_are_one_session():
    threads = ("one/0", "two/0", "one/3")
    requests = tuple(
        Request(at_s, 10, ((at_s, 1),), thread=thread) for at_s, thread in enumerate(threads)
    )
    trace = Trace("small", 10, requests)
    assert sessions_of(trace, cut(trace)) == ["one", "two", "one"]


def test_a_request_continues_the_conversation_whose_prompt_it_extends():
    trace = trace_of([0, 1], [0, 2], [0, 1, 3], [0, 2, 4], [0, 1, 3, 5], [0])
    first, second, third, fourth, fifth, last = sessions_of(trace, cut(trace))
    assert first == third == fifth
    assert second == fourth
    assert len({first, second, last}) == 3
