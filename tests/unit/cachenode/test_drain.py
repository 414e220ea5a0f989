"""Tests of `cachenode.drain`: sessions that move to other nodes, while turns go on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from cachenode.drain import LONELY_S, ROUND_MAX, no_peers
from hearthkv.core.block_io import MatchQuery, ReadEnd
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.clock import ManualClock
from hearthkv.core.errors import PeerUnreachableError
from hearthkv.core.rendezvous import owner
from hearthkv.core.routing import DrainOrder, NodeEndpoint
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier
from hearthkv.core.turn_end import EndedTurn, TurnEnd
from hearthkv.v1 import cache_node_pb2 as pb2
from tests.fakes.misbehaviour import Stall
from tests.fakes.node import FakeNode
from tests.fakes.servers import dead_address, serving
from tests.node_rig import BLOCKS_MAX, SPEC, Rig, prompt
from tests.peer_rig import PeerRig, open_peer, peers_of

GRACE_S = 30.0


@asynccontextmanager
async def three(*, dram_blocks: int = BLOCKS_MAX) -> AsyncIterator[tuple[PeerRig, ...]]:
    """Two nodes, the first of which may be small, and one that is to leave."""
    async with (
        open_peer("node-b", dram_blocks=dram_blocks) as b,
        open_peer("node-c") as c,
        open_peer("node-a", find_peers=peers_of(b, c)) as leaving,
    ):
        yield leaving, b, c


def next_home(session: str, *rigs: PeerRig) -> PeerRig:
    node_id = owner(SessionId(session), ((rig.node.identity.node_id, 1.0) for rig in rigs))
    return next(rig for rig in rigs if rig.node.identity.node_id == node_id)


def moves(rig: Rig) -> dict[str, str]:
    return {moved.session_id: moved.node_id for _, moved in rig.node.drain.moved.after(0)}


async def test_every_session_goes_to_its_next_home_and_routers_are_told():
    sessions = {f"s-{name}": prompt(5 + name, name=name) for name in range(12)}
    async with three() as (leaving, *others):
        for session, keys in sessions.items():
            await leaving.write(keys, session=session)
        await leaving.node.drain.leave(GRACE_S)
        homes = {session: next_home(session, *others) for session in sessions}
        for session, keys in sessions.items():
            assert await homes[session].read(keys) == (len(keys), ReadEnd.COMPLETE)
        assert moves(leaving) == {
            session: home.node.identity.node_id for session, home in homes.items()
        }
        assert leaving.node.drain.sessions_left() == 0
        owned = {e.name for rig in others for e in rig.node.catalog.estates() if e.is_owned}
        assert owned == set(sessions)


async def test_what_belongs_to_nobody_goes_too():
    async with three() as (leaving, *others):
        await leaving.write(prompt(7))
        await leaving.node.drain.leave(GRACE_S)
        assert sorted(rig.match(prompt(7)) for rig in others) == [0, 7]
        assert moves(leaving) == {}


async def test_all_prompts_of_a_session_go():
    async with three() as (leaving, *others):
        for name in range(3):
            await leaving.write(prompt(4, name=name), session="s")
        await leaving.node.drain.leave(GRACE_S)
        home = next_home("s", *others)
        assert [home.match(prompt(4, name=name)) for name in range(3)] == [4, 4, 4]


async def test_no_token_is_computed_again_though_writing_goes_on():
    """Turns that end up anywhere find all that was written before them."""
    sessions = [f"s-{name}" for name in range(6)]
    lengths = dict.fromkeys(sessions, 0)
    async with three() as (leaving, *others):
        by_id = {rig.node.identity.node_id: rig for rig in (leaving, *others)}
        where: dict[str, PeerRig] = dict.fromkeys(sessions, leaving)
        listener = leaving.node.drain.moved.listen()
        listener.open()

        async def play(name: int) -> None:
            session = sessions[name]
            keys = prompt(60, name=name)
            for turn in range(15):
                rig = where[session]
                held, end = await rig.read(keys[: lengths[session]], session=session)
                assert (held, end) == (lengths[session], ReadEnd.COMPLETE)
                await asyncio.sleep(0)  # the engine computes
                start = lengths[session]
                parent_key = keys[start - 1] if start else b""
                # A turn that began before its session moved ends where it began.
                await rig.write(keys[start : start + 4], parent_key=parent_key, session=session)
                rig.node.end_turn(EndedTurn(SessionId(session), TurnEnd.ANSWER))
                lengths[session] += 4
                if turn == 3:
                    leaving.node.drain.begin()
                await route()

        async def route() -> None:
            """Flip sessions, as a router does that is told; stragglers wait to be whole."""
            await asyncio.sleep(0.01)
            for number, moved in listener.next():
                session = moved.session_id
                target = by_id[moved.node_id]
                keys = prompt(60, name=sessions.index(session))[: lengths[session]]
                if target.match(keys) == len(keys):
                    where[session] = target
                listener.told(number)

        await asyncio.gather(*(play(name) for name in range(len(sessions))))
        async with asyncio.timeout(GRACE_S):
            while listener.is_behind:
                await route()
            leave = asyncio.create_task(leaving.node.drain.leave(GRACE_S))
            while not leave.done():
                await route()
        assert leaving.node.drain.sessions_left() == 0
        for name, session in enumerate(sessions):
            home = next_home(session, *others)
            assert await home.read(prompt(60, name=name)) == (60, ReadEnd.COMPLETE)


async def test_a_session_that_gained_blocks_is_handed_over_again():
    async with three() as (leaving, *others):
        keys = prompt(20)
        await leaving.write(keys[:10], session="s")
        await leaving.node.drain.leave(GRACE_S)
        before = leaving.node.drain.moved.sequence
        assert before == 1
        await leaving.write(keys[10:], parent_key=keys[9], session="s")
        assert leaving.node.drain.sessions_left() == 1
        leaving.node.drain.stop()
        await leaving.node.drain.leave(GRACE_S)
        assert next_home("s", *others).match(keys) == 20
        assert leaving.node.drain.moved.sequence > before


async def test_a_full_node_is_passed_over():
    async with three(dram_blocks=4) as (leaving, small, large):
        names = [name for name in range(30) if next_home(f"s-{name}", small, large) is small][:3]
        for name in names:
            await leaving.write(prompt(6, name=name), session=f"s-{name}")
        await leaving.node.drain.leave(GRACE_S)
        assert [large.match(prompt(6, name=name)) for name in names] == [6, 6, 6]
        assert set(moves(leaving).values()) == {"node-c"}


async def test_a_node_that_is_gone_is_passed_over():
    with dead_address() as nowhere:
        async with open_peer("node-b") as alive:

            async def find() -> Sequence[NodeEndpoint]:
                return [NodeEndpoint(NodeId("node-c"), nowhere, weight=1e6), alive.endpoint]

            async with open_peer("node-a", find_peers=find) as leaving:
                await leaving.write(prompt(6), session="s")
                await leaving.node.drain.leave(GRACE_S)
                assert alive.match(prompt(6)) == 6


@pytest.mark.parametrize(
    "lie",
    [
        pb2.PullResponse(held_blocks=5, end=pb2.PULL_END_COMPLETE),
        pb2.PullResponse(held_blocks=6, end=pb2.PULL_END_MISS),
    ],
    ids=["shorter", "miss"],
)
async def test_a_node_that_does_not_have_it_all_is_passed_over(lie: pb2.PullResponse):
    liar = FakeNode()
    liar.pull_answers = [pb2.PullResponse(held_blocks=1), lie]
    async with serving(liar) as address, open_peer("node-b") as honest:

        async def find() -> Sequence[NodeEndpoint]:
            return [NodeEndpoint(NodeId("node-c"), address, weight=1e6), honest.endpoint]

        async with open_peer("node-a", find_peers=find) as leaving:
            await leaving.write(prompt(6), session="s")
            await leaving.node.drain.leave(GRACE_S)
            assert liar.calls["Pull"] == 1
            assert moves(leaving) == {"s": "node-b"}
            assert honest.match(prompt(6)) == 6


async def test_a_busy_node_is_asked_again():
    busy = FakeNode()
    busy.pull_answers = [
        pb2.PullResponse(end=pb2.PULL_END_BUSY),
    ]
    async with serving(busy) as address:

        async def find() -> Sequence[NodeEndpoint]:
            if busy.calls["Pull"] == 3:
                done = pb2.PullResponse(held_blocks=6, end=pb2.PULL_END_COMPLETE)
                busy.pull_answers = [done]
            return [NodeEndpoint(NodeId("node-c"), address)]

        async with open_peer("node-a", find_peers=find) as leaving:
            await leaving.write(prompt(6), session="s")
            await leaving.node.drain.leave(GRACE_S)
            assert busy.calls["Pull"] == 4
            assert moves(leaving) == {"s": "node-c"}


async def test_a_node_that_hangs_keeps_no_session_from_the_others(monkeypatch):
    monkeypatch.setattr("cachenode.drain.NEWS_S", 0.2)
    hanging, names = FakeNode(), [f"s{number}" for number in range(12)]
    hanging.troubles["Pull"] = Stall()
    async with open_peer("node-b") as b, serving(hanging) as address:

        async def find() -> Sequence[NodeEndpoint]:
            return [b.endpoint, NodeEndpoint(NodeId("node-c"), address)]

        async with open_peer("node-a", find_peers=find) as leaving:
            for number, name in enumerate(names):
                await leaving.write(prompt(3, name=number), session=name)
            await leaving.node.drain.leave(GRACE_S)
            assert moves(leaving) == dict.fromkeys(names, "node-b")
    assert hanging.calls["Pull"] > 0


async def find_nobody_anywhere() -> Sequence[NodeEndpoint]:
    raise PeerUnreachableError("no router answers")


@pytest.mark.parametrize("find", [no_peers, find_nobody_anywhere], ids=["alone", "no-router"])
async def test_a_node_without_peers_leaves_when_none_has_come_for_a_while(find, caplog):
    caplog.set_level("INFO", "test")
    clock, looks = ManualClock(), asyncio.Semaphore(0)

    async def find_noting() -> Sequence[NodeEndpoint]:
        looks.release()
        return await find()

    async with open_peer("node-a", find_peers=find_noting, clock=clock) as leaving:
        await leaving.write(prompt(6), session="s")
        leave = asyncio.create_task(leaving.node.drain.leave(GRACE_S))
        for _ in range(2):
            await looks.acquire()
        assert not leave.done()
        clock.advance(LONELY_S)
        await leave
        assert leaving.node.drain.sessions_left() == 1
    assert "DrainEnded sessions_left=1 peers=0" in caplog.text


async def test_a_node_without_peers_that_holds_nothing_leaves_at_once():
    async with open_peer("node-a", clock=ManualClock()) as leaving, asyncio.timeout(GRACE_S):
        await leaving.node.drain.leave(2 * GRACE_S)


@pytest.mark.parametrize("find_first", [no_peers, find_nobody_anywhere], ids=["empty", "no-router"])
async def test_routers_that_start_again_lose_no_session(find_first):
    async with open_peer("node-b") as b:
        finds = iter([find_first, peers_of(b), no_peers])

        async def find() -> Sequence[NodeEndpoint]:
            return await next(finds, peers_of(b))()

        async with open_peer("node-a", find_peers=find) as leaving:
            await leaving.write(prompt(6), session="s")
            for number in range(ROUND_MAX):  # so that one round leaves some
                await leaving.write(prompt(2, name=1 + number), session=f"s{number}")
            await leaving.node.drain.leave(GRACE_S)
            assert leaving.node.drain.sessions_left() == 0
            assert len(moves(leaving)) == 1 + ROUND_MAX
        assert b.match(prompt(6)) == 6


async def test_a_session_moves_behind_its_turn_which_is_waited_for():
    async with three() as (leaving, *others):
        await leaving.write(prompt(6), session="s")
        query = MatchQuery(SPEC.namespace_id, PackedKeys.join(prompt(9)), SessionId("s"))
        leaving.node.match(query)
        leave = asyncio.create_task(leaving.node.drain.leave(GRACE_S))
        async with asyncio.timeout(GRACE_S):
            while leaving.node.drain.sessions_left():  # noqa: ASYNC110 - it has no event for that
                await asyncio.sleep(0.01)
        assert moves(leaving) == {}
        await leaving.write(prompt(9)[6:], parent_key=prompt(6)[-1], session="s")
        leaving.node.end_turn(EndedTurn(SessionId("s"), TurnEnd.ANSWER))
        await leave
        home = next_home("s", *others)
        assert moves(leaving) == {"s": home.node.identity.node_id}
        assert home.match(prompt(9)) == 9


async def test_the_grace_has_an_end(caplog):
    caplog.set_level("INFO", "test")
    async with three() as (leaving, *_):
        query = MatchQuery(SPEC.namespace_id, PackedKeys.join(prompt(9)), SessionId("s"))
        leaving.node.match(query)
        await leaving.node.drain.leave(0.1)
    assert "DrainEnded sessions_left=0" in caplog.text


async def test_a_node_may_stay_after_all():
    async with three() as (leaving, *_):
        assert leaving.node.drain.follow(DrainOrder(is_cancelled=True)) == 0
        await leaving.write(prompt(6), session="s")
        assert leaving.node.drain.follow(DrainOrder()) == 1
        assert leaving.node.drain.follow(DrainOrder()) == 1
        assert leaving.node.describe().is_draining
        assert leaving.meters.value("cachenode_draining") == 1
        assert leaving.node.drain.follow(DrainOrder(is_cancelled=True)) == 1
        assert not leaving.node.describe().is_draining
        assert moves(leaving) == {}
        assert leaving.usage(Tier.DRAM).blocks == 6
