"""Sessions that wait for a tool: their blocks are back in DRAM when they are."""

import pytest

from cachenode.turns import LEAD_S, TOOL_CALL_S
from hearthkv.core.block_io import MatchQuery, ReadEnd
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.clock import ManualClock
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import EndedTurn, TurnEnd
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, Rig, open_node, prompt

CALLED_A_TOOL = EndedTurn(SessionId("s"), TurnEnd.TOOL_CALL)


@pytest.fixture
def stores() -> dict[Tier, MemoryStore]:
    return {tier: MemoryStore(tier) for tier in (Tier.DRAM, Tier.SSD)}


def on_ssd(rig: Rig, keys: list[bytes]) -> int:
    return rig.node.match(MatchQuery(SPEC.namespace_id, PackedKeys.join(keys))).by_tier.ssd


async def test_a_session_that_called_a_tool_is_lifted_before_it_returns(stores):
    clock = ManualClock()
    async with open_node(stores, dram_blocks=10, ssd_blocks=40, clock=clock) as rig:
        await rig.write(prompt(6), session="s")
        await rig.node.settle()
        assert rig.node.end_turn(CALLED_A_TOOL) == 0  # all in DRAM
        await rig.write_slowly(prompt(8, name=1))
        assert on_ssd(rig, prompt(6)) > 0
        clock.advance(TOOL_CALL_S - LEAD_S)
        rig.node.tick()
        await rig.node.settle()
        assert on_ssd(rig, prompt(6)) == 0


async def test_a_session_that_is_back_already_is_not_lifted(stores):
    clock = ManualClock()
    async with open_node(stores, dram_blocks=10, ssd_blocks=40, clock=clock) as rig:
        await rig.write(prompt(6), session="s")
        rig.node.end_turn(CALLED_A_TOOL)
        assert await rig.read(prompt(6), session="s") == (6, ReadEnd.COMPLETE)
        await rig.write_slowly(prompt(8, name=1))
        clock.advance(TOOL_CALL_S)
        rig.node.tick()
        await rig.node.settle()
        assert rig.meters.value("cachenode_promoted_blocks_total") == 0


async def test_no_session_is_lifted_where_prefetch_is_off(stores):
    async with open_node(stores, dram_blocks=10, is_prefetch_on=False) as rig:
        await rig.write(prompt(6), session="s")
        await rig.write_slowly(prompt(8, name=1))
        assert on_ssd(rig, prompt(6)) > 0
        assert rig.node.end_turn(CALLED_A_TOOL) == 0
        rig.node.tick()
        await rig.node.settle()
        assert rig.meters.value("cachenode_promoted_blocks_total") == 0
