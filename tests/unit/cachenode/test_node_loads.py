"""Tests of `cachenode.node_loads`, through the node whose calls tell it of turns."""

from hearthkv.core.block_io import MatchQuery, ReadEnd, WriteStart
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.direct_path import ReserveQuery
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import EndedTurn, TurnEnd
from tests.direct_memory_store import DirectMemoryStore
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, open_node, prompt


async def test_what_turns_have_left_to_compute_is_known_until_they_end():
    async with open_node({Tier.DRAM: DirectMemoryStore()}) as rig:
        keys = PackedKeys.join(prompt(10))
        session = SessionId("s")
        await rig.write(prompt(2))
        rig.node.match(MatchQuery(SPEC.namespace_id, keys, session))
        assert rig.node.uncached_tokens == 8 * 16
        assert await rig.read(prompt(10)[:2], session="s") == (2, ReadEnd.COMPLETE)
        assert rig.node.uncached_tokens == 8 * 16
        await rig.write(prompt(10)[2:5], parent_key=prompt(2)[-1], session="s")
        assert rig.node.uncached_tokens == 5 * 16
        rig.node.reserve(
            ReserveQuery(b"p", WriteStart(SPEC, session), keys.slice(5, 7), prompt(5)[-1], (1, 2))
        )
        assert rig.node.uncached_tokens == 3 * 16
        rig.node.end_turn(EndedTurn(session, TurnEnd.FINAL))
        assert rig.node.uncached_tokens == 0


async def test_a_turn_of_an_unknown_namespace_has_all_to_compute():
    async with open_node({Tier.DRAM: MemoryStore(Tier.DRAM)}) as rig:
        keys = PackedKeys.join(prompt(3))
        matched = rig.node.match(MatchQuery(b"u" * 16, keys, SessionId("s")))
        assert (matched.by_tier.total, matched.arriving_blocks) == (0, 0)
        assert rig.node.uncached_tokens == 3 * 16
