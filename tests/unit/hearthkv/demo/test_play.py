"""A demo goes from cold to warm, through a restart and a failure."""

import pytest

from hearthkv.core.errors import PeerError
from hearthkv.core.kv_cache_settings import GIB
from hearthkv.core.routing import CacheHint, NodeState
from hearthkv.core.tier import Tier
from hearthkv.demo.agent import Session, SessionSize
from hearthkv.demo.cluster_plan import LocalNode
from hearthkv.demo.play import NODE_GONE_S, demo_cache, open_guest, play_demo, play_twice
from hearthkv.demo.turn_record import TurnRecord
from hearthkv.demo.verdict import faults
from hearthkv.v1.router_pb2 import NODE_STATE_SUSPECT as SUSPECT
from tests.fakes.router import FakeRouter, endpoint
from tests.fakes.servers import serving
from tests.unit.hearthkv.demo.conftest import Stage

SIZE = SessionSize(2500, 3)


class Watched:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def begin(self, title: str, turns: int) -> None:
        self.heard.append(f"{title}: {turns}")

    def advance(self, turn: TurnRecord) -> None:
        self.heard.append(f"round {turn.round}")


class FakeServers:
    """Servers whose death the router sees at once, or never."""

    def __init__(self, stage: Stage, *, is_seen: bool = True) -> None:
        self.did: list[str] = []
        self._stage = stage
        self._is_seen = is_seen

    def node(self, node_id: str) -> LocalNode:
        return next(node for node in self._stage.nodes if node.name == node_id)

    async def kill(self, name: str) -> None:
        self.did.append(f"kill {name}")
        self._stage.engine.forget()
        if not self._is_seen:
            self._stage.router.seconds_a_look = NODE_GONE_S + 1
        elif name in self._stage.router.states:
            self._stage.router.states[name] = NodeState.SUSPECT

    async def restart(self, name: str) -> None:
        self.did.append(f"restart {name}")


async def test_a_demo_plays_all_its_parts(stage: Stage):
    watched, servers = Watched(), FakeServers(stage)
    result = await play_demo(stage.agent, servers, SIZE, watched)
    assert faults(result) == []
    assert servers.did == ["restart engine-1", "kill node-1", "kill redis-1"]
    assert (result.after_failure.reason, result.after_failure.node_id) == ("failover", "node-2")
    assert result.after_failure.cached.total == 0
    assert watched.heard == [
        *("without the cache: 3", "round 1", "round 2", "round 3"),
        *("with the cache: 3", "round 1", "round 2", "round 3"),
        *("engine-1 is restarted: 1", "round 4"),
        *("node-1 and redis-1 are killed: 2", "round 5", "round 6"),
    ]


async def test_a_router_that_sees_no_death_is_given_up(stage: Stage):
    servers = FakeServers(stage, is_seen=False)
    with pytest.raises(PeerError, match="still takes node-1 for live after 15 s"):
        await play_demo(stage.agent, servers, SIZE, Watched())


async def test_a_session_is_played_twice_and_the_cluster_left_alone(stage: Stage):
    watched = Watched()
    session = Session(stage.agent, "guest", CacheHint.REUSE)
    result = await play_twice(stage.agent, session, SIZE, watched)
    assert faults(result) == []
    assert (len(result.without_cache), len(result.with_cache)) == (3, 3)
    assert watched.heard == [
        *("without the cache: 3", "round 1", "round 2", "round 3"),
        *("with the cache: 3", "round 1", "round 2", "round 3"),
    ]


async def test_a_guest_finds_the_engines_beside_the_live_nodes():
    router = FakeRouter(
        endpoint("a", "127.0.0.1:1", engine_url="http://127.0.0.1:11"),
        endpoint("b", "127.0.0.1:2"),
        endpoint("c", "127.0.0.1:3", engine_url="http://127.0.0.1:13", state=SUSPECT),
    )
    async with serving(router) as address, open_guest(address) as agent:
        assert agent.engine_urls() == ["http://127.0.0.1:11"]


async def test_a_guest_of_a_cluster_without_engines_is_told():
    async with serving(FakeRouter(endpoint("b", "127.0.0.1:2"))) as address:
        with pytest.raises(PeerError, match="knows no live node with an engine"):
            async with open_guest(address):
                pass


@pytest.mark.parametrize("tokens", [2000, 8000])
def test_no_tier_but_the_lower_two_together_can_hold_the_session(tokens: int):
    cache = demo_cache(tokens)
    session_bytes = tokens * 46_080
    limits = [cache.limit_bytes(tier) * cache.offload_threshold for tier in Tier]
    assert limits[0] < session_bytes
    assert limits[1] < session_bytes
    assert limits[1] + limits[2] > 1.2 * session_bytes
    assert cache.cache_capacity_gb * GIB < 4 * session_bytes
