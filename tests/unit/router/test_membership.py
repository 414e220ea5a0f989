"""router/membership.py: who is there, and how a view that went wrong heals."""

from dataclasses import replace

import pytest

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import BadRequestError, LimitError, UnknownNodeError
from hearthkv.core.routing import (
    BlockEvent,
    DrainOrder,
    EventBatch,
    EventsAck,
    NodeEndpoint,
    NodeHello,
    NodeLoad,
    NodeState,
    ResyncOrder,
    SnapshotPart,
    Welcome,
)
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from router.membership import Membership
from router.outcome import (
    BlocksChanged,
    DrainBegun,
    DrainEnded,
    InventoryCleared,
    Joined,
    Outcome,
    Recovered,
    Removed,
    Resynced,
    StreamClosed,
    StreamId,
    Suspected,
)

SUSPECT_S = 2.5
LEASE_S = 10.0
NS = b"n" * 16
KEYS = PackedKeys(b"k" * 16)
A, B = NodeId("a"), NodeId("b")
ONE, TWO, THREE = StreamId(1), StreamId(2), StreamId(3)

EVENT = BlockEvent(NS, KEYS, Tier.DRAM)
EMPTY = SnapshotPart(b"", None, PackedKeys(b""), is_first=True, is_last=True)


def endpoint(node_id: NodeId = A, epoch: int = 1) -> NodeEndpoint:
    return NodeEndpoint(node_id, "127.0.0.1:7500", epoch=epoch)


def hello(node_id: NodeId = A, epoch: int = 1) -> NodeHello:
    return NodeHello(endpoint(node_id, epoch))


def part(*, first: bool = False, last: bool = False) -> SnapshotPart:
    return SnapshotPart(NS, Tier.DRAM, KEYS, first, last)


@pytest.fixture
def membership() -> Membership:
    return Membership(suspect_s=SUSPECT_S, lease_s=LEASE_S, nodes_max=2)


@pytest.fixture
def followed(membership: Membership) -> Membership:
    """A node joined on stream ONE at 0 s, and its empty inventory is known."""
    membership.hear(ONE, hello(), 0.0)
    membership.hear(ONE, EMPTY, 0.0)
    return membership


def test_a_hello_is_welcomed_with_the_lease(membership: Membership):
    assert membership.hear(ONE, hello(), 0.0) == Outcome(
        answers=((ONE, Welcome(LEASE_S)),),
        changes=(InventoryCleared(A), Joined(endpoint(), is_new=True)),
    )
    assert membership.live() == membership.endpoints() == [endpoint()]
    assert membership.stream(A) == ONE
    assert membership.has_heard(ONE)
    assert not membership.has_heard(TWO)


def test_nodes_are_listed_by_name(membership: Membership):
    membership.hear(ONE, hello(B), 0.0)
    membership.hear(TWO, hello(A), 0.0)
    assert [node.node_id for node in membership.endpoints()] == [A, B]


@pytest.mark.parametrize("message", [EMPTY, EventBatch(1), NodeLoad()])
def test_a_stream_begins_with_a_hello(membership: Membership, message):
    with pytest.raises(BadRequestError, match=f"{type(message).__name__}, must be NodeHello"):
        membership.hear(ONE, message, 0.0)


def test_a_second_hello_is_refused(followed: Membership):
    with pytest.raises(BadRequestError, match="hello of a is the second of its stream"):
        followed.hear(ONE, hello(), 0.0)


def test_one_node_too_many_is_refused(membership: Membership):
    membership.hear(ONE, hello(A), 0.0)
    membership.hear(TWO, hello(B), 0.0)
    with pytest.raises(LimitError, match="2 nodes have joined, nodes_max is reached"):
        membership.hear(THREE, hello(NodeId("c")), 0.0)


def test_a_snapshot_clears_what_was_known_and_reports_its_parts(membership: Membership):
    membership.hear(ONE, hello(), 0.0)
    first = membership.hear(ONE, part(first=True), 0.0)
    assert first.changes == (InventoryCleared(A), BlocksChanged(A, EVENT))
    last = membership.hear(ONE, part(last=True), 0.0)
    assert last == Outcome(changes=(BlocksChanged(A, EVENT),))


def test_an_empty_inventory_is_one_part(membership: Membership):
    membership.hear(ONE, hello(), 0.0)
    assert membership.hear(ONE, EMPTY, 0.0) == Outcome(changes=(InventoryCleared(A),))


def test_events_in_order_are_acknowledged(followed: Membership):
    for number in (1, 2, 3):
        outcome = followed.hear(ONE, EventBatch(number, (EVENT, EVENT)), 0.0)
        assert outcome.answers == ((ONE, EventsAck(number)),)
        assert outcome.changes == (BlocksChanged(A, EVENT), BlocksChanged(A, EVENT))


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_number_out_of_order_asks_for_the_inventory(followed: Membership, number: int):
    followed.hear(ONE, EventBatch(1), 0.0)
    outcome = followed.hear(ONE, EventBatch(number, (EVENT,)), 0.0)
    assert outcome.answers == ((ONE, ResyncOrder(2, number)),)
    assert outcome.changes == (Resynced(A, 2, number),)


def test_while_an_inventory_is_awaited_events_and_old_parts_are_passed_over(
    followed: Membership,
):
    followed.hear(ONE, EventBatch(5), 0.0)
    for message in (EventBatch(6, (EVENT,)), part(last=True), NodeLoad(sequence=6)):
        assert followed.hear(ONE, message, 0.0) == Outcome()
    followed.hear(ONE, part(first=True, last=True), 0.0)
    assert followed.hear(ONE, EventBatch(1), 0.0).answers == ((ONE, EventsAck(1)),)


def test_events_within_a_snapshot_ask_for_it_anew(membership: Membership):
    membership.hear(ONE, hello(), 0.0)
    membership.hear(ONE, part(first=True), 0.0)
    assert membership.hear(ONE, EventBatch(1, (EVENT,)), 0.0).answers == ((ONE, ResyncOrder(1, 1)),)


def test_a_snapshot_without_a_first_part_asks_for_it_anew(followed: Membership):
    assert followed.hear(ONE, part(last=True), 0.0).answers == ((ONE, ResyncOrder(1, 0)),)


def test_a_heartbeat_tells_of_a_lost_batch(followed: Membership):
    load = NodeLoad(sequence=1, calls_in_flight=7)
    assert followed.hear(ONE, load, 0.0).answers == ((ONE, ResyncOrder(1, 1)),)
    assert followed.load(A) == load


def test_a_heartbeat_with_the_number_expected_changes_nothing(followed: Membership):
    followed.hear(ONE, EventBatch(1), 0.0)
    assert followed.hear(ONE, NodeLoad(sequence=1), 0.0) == Outcome()


def test_a_heartbeat_within_a_snapshot_changes_nothing(membership: Membership):
    membership.hear(ONE, hello(), 0.0)
    membership.hear(ONE, part(first=True), 0.0)
    assert membership.hear(ONE, NodeLoad(sequence=9), 0.0) == Outcome()


def test_a_broken_stream_makes_the_node_suspect(followed: Membership):
    version = followed.version
    assert followed.lose(ONE, 0.0) == Outcome(changes=(Suspected(A, 0.0),))
    assert followed.live() == []
    assert followed.endpoints() == [replace(endpoint(), state=NodeState.SUSPECT)]
    assert followed.stream(A) is None
    assert followed.version > version
    assert followed.lose(ONE, 0.0) == Outcome()


def test_a_stream_that_never_said_hello_is_lost_without_a_trace(membership: Membership):
    assert membership.lose(ONE, 0.0) == Outcome()


def test_a_suspect_node_comes_back_with_its_blocks(followed: Membership):
    followed.lose(ONE, 0.0)
    outcome = followed.hear(TWO, hello(), 1.0)
    assert outcome.changes == (Joined(endpoint(), is_new=False),)
    assert followed.live() == [endpoint()]


def test_a_restarted_node_comes_back_without_its_blocks(followed: Membership):
    followed.lose(ONE, 0.0)
    outcome = followed.hear(TWO, hello(epoch=2), 1.0)
    assert outcome.changes == (InventoryCleared(A), Joined(endpoint(epoch=2), is_new=True))


@pytest.mark.parametrize("epoch", [1, 2], ids=["same-start", "restarted"])
def test_the_newer_stream_of_a_node_wins_at_once(followed: Membership, epoch: int):
    outcome = followed.hear(TWO, hello(epoch=epoch), 1.0)
    displaced = StreamClosed(
        ONE,
        f"node a joined again, at 127.0.0.1:7500 with epoch {epoch}: "
        "a name is for one node, and a node has one stream",
    )
    assert outcome.closed == (displaced,)
    assert followed.stream(A) == TWO
    assert followed.hear(ONE, EventBatch(1, (EVENT,)), 1.0) == Outcome(closed=(displaced,))
    assert followed.lose(ONE, 0.0) == Outcome()
    assert followed.live() == [endpoint(epoch=epoch)]


def test_a_lease_is_over_after_more_than_its_time(followed: Membership):
    assert followed.sweep(LEASE_S) == Outcome(changes=(Suspected(A, LEASE_S),))
    assert followed.silence_s(A, LEASE_S) == LEASE_S
    assert followed.sweep(LEASE_S + 0.5) == Outcome(
        changes=(InventoryCleared(A), Removed(A, LEASE_S + 0.5)),
        closed=(StreamClosed(ONE, "node a said nothing for 10.5 s, its lease is over"),),
    )
    assert followed.endpoints() == []
    assert followed.stream(A) is None


def test_a_silent_node_is_suspect_though_its_stream_is_open(followed: Membership):
    assert followed.sweep(SUSPECT_S) == Outcome()
    assert followed.sweep(SUSPECT_S + 0.25) == Outcome(changes=(Suspected(A, SUSPECT_S + 0.25),))
    assert followed.live() == followed.serving() == []
    assert followed.sweep(SUSPECT_S + 0.5) == Outcome()


def test_a_silent_node_is_back_with_all_its_blocks_at_its_first_word(followed: Membership):
    followed.hear(ONE, EventBatch(1), 0.0)
    followed.sweep(3.0)
    outcome = followed.hear(ONE, EventBatch(2, (EVENT,)), 4.0)
    assert outcome.changes == (Recovered(A), BlocksChanged(A, EVENT))
    assert outcome.answers == ((ONE, EventsAck(2)),)
    assert followed.live() == [endpoint()]


def test_a_silent_node_that_loses_its_stream_is_suspected_once(followed: Membership):
    followed.sweep(3.0)
    assert followed.lose(ONE, 3.5) == Outcome()
    followed.hear(TWO, hello(), 4.0)
    assert followed.live() == [endpoint()]
    assert followed.sweep(5.0) == Outcome()


def test_a_node_is_as_old_as_its_start_whatever_its_stream_does(followed: Membership):
    followed.lose(ONE, 3.0)
    followed.hear(TWO, hello(), 4.0)
    assert followed.joined_s(A) == 0.0
    followed.hear(THREE, hello(epoch=2), 5.0)
    assert followed.joined_s(A) == 5.0


def test_an_inventory_that_does_not_come_is_asked_for_again(membership: Membership):
    membership.hear(ONE, hello(), 0.0)
    for second in range(1, 11):
        membership.hear(ONE, NodeLoad(), float(second))
        assert membership.sweep(float(second)) == Outcome()
    outcome = membership.sweep(10.5)
    assert outcome.answers == ((ONE, ResyncOrder(1, 0)),)
    assert outcome.changes == (Resynced(A, 1, 0),)
    assert membership.inventory(A).lag_s(10.5) == 10.5


def test_a_suspect_node_is_removed_when_its_lease_is_over(followed: Membership):
    followed.lose(ONE, 0.0)
    assert followed.sweep(LEASE_S + 1).closed == ()
    assert followed.endpoints() == []


def test_every_message_renews_the_lease(followed: Membership):
    followed.hear(ONE, NodeLoad(), 9.0)
    followed.hear(ONE, EventBatch(1), 18.0)
    followed.sweep(27.0)
    assert followed.silence_s(A, 27.0) == 9.0


def test_what_a_removed_node_says_closes_its_stream(followed: Membership):
    followed.sweep(LEASE_S + 1)
    assert followed.hear(ONE, NodeLoad(), LEASE_S + 2) == Outcome(
        closed=(StreamClosed(ONE, "node a was forgotten, and must join anew"),)
    )


def test_an_inventory_can_be_asked_for_from_outside_once_it_is_known(followed: Membership):
    assert followed.order_resync(A, 0.0).answers == ((ONE, ResyncOrder(1, 1)),)
    assert followed.order_resync(A, 0.0) == Outcome()
    assert followed.order_resync(B, 0.0) == Outcome()


def state_of(membership: Membership, node_id: NodeId = A) -> NodeState:
    return membership.endpoint(node_id).state


def test_a_node_that_is_told_to_leave_gets_no_new_session_at_once(followed: Membership):
    outcome = followed.order_drain(A, 0.0, is_cancelled=False)
    assert outcome == Outcome(answers=((ONE, DrainOrder()),), changes=(DrainBegun(A),))
    assert followed.live() == []
    assert followed.serving() == [replace(endpoint(), state=NodeState.DRAINING)]
    before_it_heard = followed.hear(ONE, NodeLoad(is_draining=False), 0.0)
    assert before_it_heard == Outcome()
    assert state_of(followed) is NodeState.DRAINING


def test_a_node_that_may_stay_gets_new_sessions_again(followed: Membership):
    followed.order_drain(A, 0.0, is_cancelled=False)
    followed.hear(ONE, NodeLoad(is_draining=True), 0.0)
    outcome = followed.order_drain(A, 0.0, is_cancelled=True)
    assert outcome == Outcome(answers=((ONE, DrainOrder(True)),), changes=(DrainEnded(A),))
    assert followed.live() == [endpoint()]
    assert followed.hear(ONE, NodeLoad(is_draining=True), 0.0) == Outcome()


def test_what_another_router_ordered_is_heard_from_the_node(followed: Membership):
    followed.order_drain(A, 0.0, is_cancelled=False)
    followed.hear(ONE, NodeLoad(is_draining=True), 0.0)
    stays = followed.hear(ONE, NodeLoad(is_draining=False), 0.0)
    assert stays == Outcome(changes=(DrainEnded(A),))
    leaves = followed.hear(ONE, NodeLoad(is_draining=True), 0.0)
    assert leaves == Outcome(changes=(DrainBegun(A),))


def test_a_suspect_node_is_told_to_leave_when_it_is_back(followed: Membership):
    followed.lose(ONE, 0.0)
    assert followed.order_drain(A, 0.0, is_cancelled=False) == Outcome()
    assert state_of(followed) is NodeState.SUSPECT
    outcome = followed.hear(TWO, hello(), 1.0)
    assert outcome.answers == ((TWO, Welcome(LEASE_S)), (TWO, DrainOrder()))
    assert state_of(followed) is NodeState.DRAINING


def test_a_draining_node_that_comes_back_is_draining_before_it_says_so(followed: Membership):
    followed.hear(ONE, NodeLoad(is_draining=True), 0.0)
    followed.lose(ONE, 0.0)
    assert followed.hear(TWO, hello(), 1.0).answers == ((TWO, Welcome(LEASE_S)),)
    assert state_of(followed) is NodeState.DRAINING


def test_a_node_that_was_started_anew_does_not_leave(followed: Membership):
    followed.order_drain(A, 0.0, is_cancelled=False)
    followed.hear(TWO, hello(epoch=2), 1.0)
    assert state_of(followed) is NodeState.LIVE


def test_a_node_that_is_not_known_cannot_be_told_to_leave(followed: Membership):
    with pytest.raises(UnknownNodeError, match="node b is not known here, must be one of: a"):
        followed.order_drain(B, 0.0, is_cancelled=False)
    followed.sweep(LEASE_S + 1)
    with pytest.raises(UnknownNodeError, match="must be one of: no node"):
        followed.order_drain(A, 0.0, is_cancelled=False)


def test_the_version_grows_with_every_change_of_the_list(membership: Membership):
    versions = [membership.version]
    for step in (
        lambda: membership.hear(ONE, hello(), 0.0),
        lambda: membership.lose(ONE, 0.0),
        lambda: membership.hear(TWO, hello(), 0.0),
        lambda: membership.sweep(LEASE_S + 1),
    ):
        step()
        versions.append(membership.version)
    assert versions == sorted(set(versions))
