"""router/outcome.py: outcomes add up in the order in which they happened."""

from hearthkv.core.routing import EventsAck
from hearthkv.core.session_id import NodeId
from router.outcome import Outcome, Recovered, StreamClosed, StreamId, Suspected

ONE, TWO = StreamId(1), StreamId(2)
A = NodeId("a")


def test_what_follows_from_two_things_is_what_follows_from_both_in_order():
    first = Outcome(((ONE, EventsAck(1)),), (Suspected(A, 2.6),), (StreamClosed(ONE, "gone"),))
    second = Outcome(((TWO, EventsAck(2)),), (Recovered(A),), (StreamClosed(TWO, "too"),))
    assert first + second == Outcome(
        ((ONE, EventsAck(1)), (TWO, EventsAck(2))),
        (Suspected(A, 2.6), Recovered(A)),
        (StreamClosed(ONE, "gone"), StreamClosed(TWO, "too")),
    )
    assert Outcome() + first == first
