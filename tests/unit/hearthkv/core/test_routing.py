"""Defaults and labels of what is said about placement."""

import pytest

from hearthkv.core.routing import (
    CacheHint,
    EventBatch,
    NodeEndpoint,
    NodeLoad,
    NodeState,
    PlacementReason,
)
from hearthkv.core.session_id import NodeId


def test_a_node_is_live_and_weighs_one_unless_it_says_otherwise():
    node = NodeEndpoint(NodeId("a"), "127.0.0.1:7500")
    assert (node.state, node.weight, node.engine_url, node.epoch) == (NodeState.LIVE, 1.0, "", 0)


def test_a_node_that_said_nothing_yet_has_no_load():
    assert NodeLoad() == NodeLoad(sequence=0, tiers=(), calls_in_flight=0)
    assert EventBatch(1).events == ()


@pytest.mark.parametrize("kind", [CacheHint, NodeState, PlacementReason])
def test_labels_are_the_names_in_small_letters(kind):
    assert [member.value for member in kind] == [member.name.lower() for member in kind]
