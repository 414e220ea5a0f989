"""Tests of `cachenode.lineages`, through the catalog that answers with them."""

from hypothesis import given
from hypothesis import strategies as st

from cachenode.lineages import Estate, Tip
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier
from tests.memory_store import MemoryStore
from tests.node_rig import SPEC, open_node, prompt

NAMESPACE = SPEC.namespace_id


def tip(key: bytes) -> Tip:
    return Tip(NAMESPACE, key)


def stores() -> dict[Tier, MemoryStore]:
    return {Tier.DRAM: MemoryStore(Tier.DRAM)}


async def test_a_tip_has_its_keys_and_an_unknown_one_none():
    async with open_node(stores()) as rig:
        await rig.write(prompt(5))
        catalog = rig.node.catalog
        assert list(catalog.lineage(NAMESPACE, prompt(5)[2])) == prompt(3)
        assert catalog.lineage(NAMESPACE, b"x" * 16) == PackedKeys(b"")
        assert catalog.is_held(tip(prompt(5)[2]))
        assert not catalog.is_held(tip(b"x" * 16))


async def test_sessions_come_first_the_hottest_of_them_before_the_others():
    async with open_node(stores()) as rig:
        await rig.write(prompt(3, name=1), session="a")
        await rig.write(prompt(3, name=2), session="b")
        await rig.write(prompt(2, name=3))
        await rig.write(prompt(4, name=4), session="b")
        nobody = prompt(2, name=3)[-1]
        assert list(rig.node.catalog.estates()) == [
            Estate(SessionId("b"), (tip(prompt(3, name=2)[-1]), tip(prompt(4, name=4)[-1])), True),
            Estate(SessionId("a"), (tip(prompt(3, name=1)[-1]),), True),
            Estate(SessionId(nobody.hex()), (tip(nobody),), False),
        ]


async def test_what_lies_beyond_a_session_belongs_to_nobody():
    async with open_node(stores()) as rig:
        keys = prompt(5)
        await rig.write(keys[:3], session="a")
        await rig.write(keys[3:], parent_key=keys[2])
        assert [estate.tips for estate in rig.node.catalog.estates()] == [
            (tip(keys[2]),),
            (tip(keys[4]),),
        ]


async def test_a_session_owns_what_it_is_said_to():
    async with open_node(stores()) as rig:
        await rig.write(prompt(5))
        rig.node.catalog.note_owner(SessionId("a"), tip(prompt(5)[-1]))
        rig.node.catalog.note_owner(SessionId("a"), tip(b"x" * 16))
        (estate,) = rig.node.catalog.estates()
        assert estate == Estate(SessionId("a"), (tip(prompt(5)[-1]),), True)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 6), st.sampled_from([None, "a", "b"])),
        max_size=8,
    )
)
async def test_every_block_lies_on_the_way_to_a_tip(writes):
    async with open_node(stores()) as rig:
        for name, blocks, session in writes:
            await rig.write(prompt(blocks, name=name), session=session)
        catalog = rig.node.catalog
        reached = {
            key
            for estate in catalog.estates()
            for each in estate.tips
            for key in catalog.lineage(each.namespace_id, each.key)
        }
        held = {key for part in catalog.snapshot() for key in part.keys}
        assert reached == held
