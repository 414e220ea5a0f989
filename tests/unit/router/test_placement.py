"""router/placement.py: who gets a turn, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core import rendezvous
from hearthkv.core.errors import NoNodeError
from hearthkv.core.routing import CacheHint, PlacementReason
from hearthkv.core.session_id import NodeId, SessionId
from router.placement import Choice, LastTurn, PlacementPolicy, Turn, place

A, B, C, D = (NodeId(name) for name in "abcd")
POLICY = PlacementPolicy()
BUSY = POLICY.spill_tokens + 1


@dataclass(frozen=True, slots=True)
class FewNodes:
    """Nodes that are what a test says."""

    live: Sequence[NodeId] = (A, B, C)
    draining: Sequence[NodeId] = ()
    loads: Mapping[NodeId, float] = field(default_factory=dict)
    wanted: Mapping[NodeId, float] = field(default_factory=dict)
    slow: Mapping[NodeId, int] = field(default_factory=dict)

    def is_live(self, node_id: NodeId) -> bool:
        return node_id in self.live

    def is_serving(self, node_id: NodeId) -> bool:
        return node_id in (*self.live, *self.draining)

    def load_tokens(self, node_id: NodeId) -> float:
        return self.loads.get(node_id, 0.0)

    def wanted_tokens(self, node_id: NodeId) -> float:
        return self.wanted.get(node_id, 0.0)

    def slow_blocks(self, node_id: NodeId, blocks: int) -> int:
        return min(self.slow.get(node_id, 0), blocks)


IDLE = FewNodes()


def placed(
    *, last=None, hint=CacheHint.REUSE, blocks=100, matched=None, nodes=IDLE, ranked=(A, B, C)
) -> Choice:
    """Place a turn whose home is the first of `ranked`."""
    where = last if last is None or isinstance(last, LastTurn) else LastTurn(last)
    longest_first = sorted((matched or {}).items(), key=lambda item: (-item[1], item[0]))
    return place(
        Turn(hint, blocks, 16, where),
        ranked=[node_id for node_id in ranked if node_id in nodes.live],
        matched_blocks=dict(longest_first),
        nodes=nodes,
        policy=POLICY,
    )


def test_without_a_live_node_there_is_no_placement():
    with pytest.raises(NoNodeError, match="0 cache nodes are live, at least 1 must be"):
        placed(nodes=FewNodes(live=()))


@pytest.mark.parametrize("hint", [CacheHint.NONE, CacheHint.BYPASS])
@pytest.mark.parametrize(
    ("last", "expected"),
    [
        pytest.param(None, Choice(A, A, PlacementReason.HOME), id="a-new-session-goes-home"),
        pytest.param(C, Choice(C, A, PlacementReason.SESSION), id="a-session-stays"),
        pytest.param(D, Choice(A, A, PlacementReason.FAILOVER), id="one-whose-node-is-gone"),
    ],
)
def test_without_the_hint_neither_prefix_nor_load_counts(hint, last, expected):
    nodes = FewNodes(loads={A: 1e9, C: 1e9}, wanted={A: 1e9, C: 1e9})
    assert placed(hint=hint, last=last, matched={B: 100}, nodes=nodes) == expected


@pytest.mark.parametrize("blocks", [0, 100])
def test_a_prompt_that_nobody_holds_stays_with_its_session_where_all_is_alike(blocks):
    assert placed(blocks=blocks, last=C) == Choice(C, A, PlacementReason.SESSION)
    assert placed(blocks=blocks) == Choice(A, A, PlacementReason.HOME)


@pytest.mark.parametrize(
    ("last", "matched", "expected"),
    [
        pytest.param(A, {B: 50}, B, id="half-of-the-prompt-moves"),
        pytest.param(A, {B: 49, A: 18}, A, id="less-than-half-and-a-small-gain-stays"),
        pytest.param(A, {B: 49, A: 17}, B, id="less-than-half-and-a-gain-of-32-moves"),
        pytest.param(A, {B: 80, A: 79}, B, id="half-of-the-prompt-and-longer-moves"),
        pytest.param(A, {B: 80, A: 80}, A, id="an-equal-match-stays"),
        pytest.param(D, {B: 80, C: 80}, B, id="equal-matches-go-by-the-order-of-the-hash"),
        pytest.param(None, {B: 32}, B, id="a-new-session-gains-all-of-a-match"),
        pytest.param(None, {B: 31}, A, id="a-short-match-leaves-a-new-session-at-home"),
        pytest.param(None, {A: 60, B: 60}, A, id="home-wins-among-equals"),
        pytest.param(C, {D: 90, B: 60}, B, id="a-node-that-is-gone-is-passed-over"),
        pytest.param(C, {D: 90}, C, id="a-node-that-is-gone-draws-nobody"),
    ],
)
def test_a_match_moves_a_session_if_it_is_worth_it(last, matched, expected):
    assert placed(last=last, matched=matched).node_id == expected


def test_a_move_names_prefix_as_its_reason_and_home_as_home():
    assert placed(last=C, matched={B: 90}) == Choice(B, A, PlacementReason.PREFIX)
    assert placed(last=D, matched={B: 90}) == Choice(B, A, PlacementReason.PREFIX)
    assert placed(matched={A: 90}) == Choice(A, A, PlacementReason.PREFIX)


def test_a_holder_in_dram_beats_one_on_ssd_among_equals():
    nodes = FewNodes(slow={B: 80, C: 10})
    assert placed(last=A, matched={B: 90, C: 90}, nodes=nodes).node_id == C


def test_the_own_node_beats_a_faster_one_among_equals():
    nodes = FewNodes(slow={B: 90})
    assert placed(last=B, matched={B: 90, C: 90}, nodes=nodes).node_id == B


def test_equal_holders_beyond_the_first_of_the_hash_go_by_id():
    nodes = FewNodes(live=(A, B, C, D))
    choice = placed(last=A, matched={C: 90, D: 90}, nodes=nodes, ranked=(A, B))
    assert choice.node_id == C


def test_what_must_be_computed_goes_where_the_cache_is_wanted_least():
    nodes = FewNodes(wanted={A: 9000, B: 2000, C: 5000})
    few, many = 100, 1000
    assert placed(blocks=many, last=A, nodes=nodes) == Choice(B, A, PlacementReason.SPILL)
    assert placed(blocks=many, nodes=nodes) == Choice(B, A, PlacementReason.SPILL)
    assert placed(blocks=many, last=D, nodes=nodes) == Choice(B, A, PlacementReason.FAILOVER)
    assert placed(blocks=few, last=A, nodes=nodes).reason is PlacementReason.SESSION


def test_what_is_held_for_the_most_part_stays_however_full_its_node_is():
    nodes = FewNodes(wanted={A: 1e9})
    stays, goes = ({A: held} for held in (600, 599))
    assert placed(blocks=1000, last=A, matched=stays, nodes=nodes).node_id == A
    assert placed(blocks=1000, last=A, matched=goes, nodes=nodes).node_id == B


def test_room_must_be_worth_the_copy():
    matched = {A: 500}  # 8000 tokens, a quarter of which is 2000
    for wanted, expected in ((1999, A), (2001, B)):
        nodes = FewNodes(wanted={A: wanted})
        assert placed(blocks=1000, last=A, matched=matched, nodes=nodes).node_id == expected


def test_what_must_be_computed_passes_busy_nodes_by():
    nodes = FewNodes(wanted={A: 9000, C: 5000}, loads={B: BUSY})
    assert placed(blocks=1000, last=A, nodes=nodes).node_id == C


def test_a_session_leaves_a_saturated_node_when_that_outweighs_the_copy():
    # 100 blocks of 16 tokens that are copied at four times their price: 6400.
    for load, expected in ((BUSY + 6399, A), (BUSY + 6400, B)):
        nodes = FewNodes(loads={A: load, C: 1.0}, wanted={C: 1.0})
        choice = placed(last=A, matched={A: 100}, nodes=nodes)
        assert choice.node_id == expected
    assert choice == Choice(B, A, PlacementReason.SPILL)


def test_a_node_that_holds_the_prefix_as_well_costs_no_copy():
    nodes = FewNodes(loads={A: BUSY}, wanted={B: 0.0, C: 9.0})
    assert placed(last=A, matched={A: 100, C: 100}, nodes=nodes).node_id == C


def test_a_session_stays_where_all_are_saturated():
    nodes = FewNodes(loads=dict.fromkeys((A, B, C), 1e6))
    assert placed(last=A, matched={A: 100}, nodes=nodes).node_id == A


def test_a_prompt_without_keys_does_not_leave_its_session_but_a_new_one_may_leave_home():
    nodes = FewNodes(loads={A: BUSY})
    assert placed(blocks=0, last=A, nodes=nodes).node_id == A
    assert placed(blocks=0, nodes=nodes).node_id == B


def test_a_draining_node_keeps_its_sessions_and_gets_no_others():
    nodes = FewNodes(live=(B, C), draining=(A,), loads={A: 1e9})
    assert placed(last=A, matched={A: 100}, nodes=nodes) == Choice(A, B, PlacementReason.SESSION)
    assert placed(last=C, matched={A: 100}, nodes=nodes) == Choice(C, B, PlacementReason.SESSION)
    assert placed(matched={A: 100}, nodes=nodes) == Choice(B, B, PlacementReason.HOME)


def test_what_must_be_computed_leaves_a_draining_node():
    nodes = FewNodes(live=(B, C), draining=(A,), wanted={B: 9.0})
    assert placed(blocks=1000, last=A, nodes=nodes) == Choice(C, B, PlacementReason.DRAIN)


def test_a_session_that_was_handed_over_says_so_once():
    last = LastTurn(B, is_handed_over=True)
    assert placed(last=last, matched={B: 100}) == Choice(B, A, PlacementReason.DRAIN)


NAMES = st.sampled_from([NodeId(name) for name in "abcdefgh"])


@given(
    matched=st.dictionaries(NAMES, st.integers(0, 1000)),
    loads=st.dictionaries(NAMES, st.floats(0, 1e6)),
    wanted=st.dictionaries(NAMES, st.floats(0, 1e7)),
    weights=st.dictionaries(NAMES, st.floats(0.1, 10), min_size=1),
    last=st.none() | NAMES,
    hint=st.sampled_from(CacheHint),
    session=st.text(min_size=1),
    data=st.data(),
)
def test_two_routers_agree_whatever_order_they_know_the_nodes_in_i8(
    *, matched, loads, wanted, weights, last, hint, session, data
):
    choices = []
    for _ in range(2):
        order = data.draw(st.permutations(list(weights)))
        choices.append(
            placed(
                last=last,
                hint=hint,
                blocks=1000,
                matched=dict(data.draw(st.permutations(list(matched.items())))),
                nodes=FewNodes(live=order, loads=loads, wanted=wanted),
                ranked=rendezvous.rank(SessionId(session), [(n, weights[n]) for n in order]),
            )
        )
    one, two = choices
    assert one == two
    assert one.node_id in weights
    assert one.home_node_id in weights


@given(
    matched=st.dictionaries(NAMES, st.integers(0, 1000)),
    loads=st.dictionaries(NAMES, st.floats(0, 1e6)),
    wanted=st.dictionaries(NAMES, st.floats(0, 1e7)),
    last=NAMES,
)
def test_no_session_moves_without_a_reason(matched, loads, wanted, last):
    nodes = FewNodes(live=tuple(map(NodeId, "abcdefgh")), loads=loads, wanted=wanted)
    choice = placed(
        last=last, blocks=1000, matched=matched, nodes=nodes, ranked=list(reversed(nodes.live))
    )
    own, other = matched.get(last, 0), matched.get(choice.node_id, 0)
    if choice.node_id == last:
        assert choice.reason is PlacementReason.SESSION
    elif choice.reason is PlacementReason.PREFIX:
        assert other > own
    else:
        assert choice.reason is PlacementReason.SPILL
        is_to_be_computed = max(matched.values(), default=0) < 600
        is_saturated = max(loads.values(), default=0) > POLICY.spill_tokens
        assert is_to_be_computed or is_saturated
