"""Tests of `cachenode.handoffs`."""

from cachenode.handoffs import REFUSED_S, Handoff, Handoffs
from cachenode.lineages import Estate, Tip
from hearthkv.core.rendezvous import rank
from hearthkv.core.routing import NodeEndpoint
from hearthkv.core.session_id import NodeId, SessionId

PEERS = [NodeEndpoint(NodeId(name), f"{name}:1") for name in ("b", "c", "d")]
ORDER = rank(SessionId("s"), ((peer.node_id, peer.weight) for peer in PEERS))


def estate(*tips: bytes, name: str = "s", is_owned: bool = True) -> Estate:
    return Estate(SessionId(name), tuple(Tip(b"n" * 16, tip) for tip in tips), is_owned)


def planned(handoffs: Handoffs, *estates: Estate, peers=PEERS, now: float = 0.0) -> list[Handoff]:
    return list(handoffs.plan(estates, peers, now))


def targets(handoffs: Handoffs, *estates: Estate, peers=PEERS, now: float = 0.0) -> list[str]:
    return [handoff.target.node_id for handoff in planned(handoffs, *estates, peers=peers, now=now)]


def test_a_session_goes_to_its_next_home_whatever_the_order_of_the_peers():
    assert targets(Handoffs(), estate(b"1")) == [ORDER[0]]
    assert targets(Handoffs(), estate(b"1"), peers=PEERS[::-1]) == [ORDER[0]]


def test_what_comes_first_is_handed_over_first():
    first, second = estate(b"1", name="x"), estate(b"2", name="y")
    assert [each.estate for each in planned(Handoffs(), first, second)] == [first, second]


def test_without_peers_nothing_is_planned_and_all_is_left():
    assert targets(Handoffs(), estate(b"1"), peers=[]) == []
    assert list(Handoffs().left([estate(b"1")], [])) == [estate(b"1")]


def test_what_is_handed_over_is_left_alone_until_it_grows():
    handoffs = Handoffs()
    handoffs.complete(planned(handoffs, estate(b"1", b"2"))[0])
    assert targets(handoffs, estate(b"2")) == []
    assert list(handoffs.left([estate(b"1", b"2")], PEERS)) == []
    assert targets(handoffs, estate(b"2", b"3")) == [ORDER[0]]


def test_a_session_moves_when_it_is_whole_and_again_when_it_grew():
    handoffs = Handoffs()
    nobodys = estate(b"1", name="n", is_owned=False)
    for each in (estate(b"1"), nobodys):
        handoffs.complete(planned(handoffs, each)[0])
    assert list(handoffs.whole([estate(b"1", b"2")], PEERS)) == []
    assert list(handoffs.whole([estate(b"1"), nobodys], PEERS)) == [("s", ORDER[0])]
    handoffs.move(SessionId("s"))
    assert list(handoffs.whole([estate(b"1")], PEERS)) == []
    handoffs.complete(planned(handoffs, estate(b"1", b"2"))[0])
    assert list(handoffs.whole([estate(b"1", b"2")], PEERS)) == [("s", ORDER[0])]


def test_a_session_stays_with_the_node_that_has_it():
    handoffs = Handoffs()
    peers = [peer for peer in PEERS if peer.node_id != ORDER[0]]
    handoffs.complete(planned(handoffs, estate(b"1"), peers=peers)[0])
    assert targets(handoffs, estate(b"1")) == []
    assert targets(handoffs, estate(b"1", b"2")) == [ORDER[1]]


def test_a_session_whose_new_node_is_gone_goes_elsewhere():
    handoffs = Handoffs()
    handoffs.complete(planned(handoffs, estate(b"1"))[0])
    rest = [peer for peer in PEERS if peer.node_id != ORDER[0]]
    assert targets(handoffs, estate(b"1"), peers=rest) == [ORDER[1]]


def test_a_node_that_refuses_is_passed_over_for_a_while():
    handoffs = Handoffs()
    for node_id in ORDER:
        (handoff,) = planned(handoffs, estate(b"1"))
        assert handoff.target.node_id == node_id
        handoffs.refuse(handoff, 0.0)
    assert planned(handoffs, estate(b"1"), now=REFUSED_S - 1) == []
    assert list(handoffs.left([estate(b"1")], PEERS)) == [estate(b"1")]
    assert targets(handoffs, estate(b"1"), now=REFUSED_S) == [ORDER[0]]


def test_a_session_and_what_is_nobodys_may_have_one_name():
    handoffs = Handoffs()
    handoffs.complete(planned(handoffs, estate(b"1"))[0])
    assert targets(handoffs, estate(b"1", is_owned=False)) == [ORDER[0]]


def test_what_is_held_no_more_is_forgotten():
    handoffs = Handoffs()
    handoffs.complete(planned(handoffs, estate(b"1"))[0])
    handoffs.prune([estate(b"1")])
    assert targets(handoffs, estate(b"1")) == []
    handoffs.prune([])
    assert targets(handoffs, estate(b"1")) == [ORDER[0]]
