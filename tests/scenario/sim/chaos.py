"""What goes wrong: one trouble after the other, of every kind, until it has to be quiet."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from hearthkv.core.block_io import DropBlocks, DropNamespace, DropSession
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import PeerError
from hearthkv.core.session_id import SessionId
from hearthkv.core.tier import Tier
from tests.scenario.sim.cluster import SimCluster
from tests.scenario.sim.machines import Machine
from tests.scenario.sim.network import Link
from tests.scenario.sim.players import Player

CALL_BACK_S = 3.0
"""After how long somebody sees to it that no node leaves for good."""

KEEPALIVE_S = 10.0
"""How long a connection is silent before its ends give it up."""


class Chaos:
    """
    Troubles a cluster.

    Args:
        cluster: The cluster.
        until_s: When all has to be well again.
    """

    def __init__(self, cluster: SimCluster, until_s: float) -> None:
        self.cluster = cluster
        self.until_s = until_s
        self._chance = random.Random(cluster.chance.random())
        self._trace = cluster.trace
        self._plays: list[asyncio.Task[None]] = []
        # The pace and the mix differ from seed to seed: some live in peace, some in hell.
        self._pause_s = self._chance.choice((0.15, 0.3, 0.6, 2.0))
        kinds: tuple[Callable[[], Awaitable[None]], ...] = (
            self._cut,
            self._block_link,
            self._isolate,
            self._slow_down,
            self._kill_node,
            self._kill_router,
            self._send_away,
            self._jump,
            self._fail_disk,
            self._empty_disk,
            self._damage,
            self._ask_for_odd_things,
            self._leave_a_turn,
        )
        self._kinds = kinds
        self._weights = [self._chance.choice((0, 1, 1, 3)) for _ in kinds]
        if not any(self._weights):
            self._weights[0] = 1

    async def run(self) -> None:
        """Make trouble until it has to be quiet, and wait until all of it is over."""
        self._plays = self.cluster.begin_sessions(self.until_s)
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as troubles:
            while loop.time() < self.until_s:
                await asyncio.sleep(self._chance.expovariate(1 / self._pause_s))
                (kind,) = self._chance.choices(self._kinds, self._weights)
                if loop.time() < self.until_s:
                    troubles.create_task(kind())
        await asyncio.wait(self._plays)
        await self._call_back()

    async def _cut(self) -> None:
        link = self._chance.choice(self.cluster.network.links())
        self._trace.note("a link is cut")
        link.faulty_until_s = self._now()
        link.cut(spread_s=self._chance.choice((0.001, 0.05, 0.5)))

    async def _block_link(self) -> None:
        self._trace.note("a link is blocked")
        await self._block([self._chance.choice(self.cluster.network.links())])

    async def _isolate(self) -> None:
        machine = self._chance.choice(self.cluster.machines)
        self._trace.note(f"{machine.name} is cut off")
        await self._block(self.cluster.links_of(machine))

    async def _block(self, links: list[Link]) -> None:
        end_s = self._end_s(self._chance.choice((0.3, 1.0, 3.0, 13.0)))
        blockades = [(link, link.block()) for link in links]
        for link in links:
            link.faulty_until_s = max(link.faulty_until_s, end_s)
        await self._wait_until(min(end_s, self._now() + KEEPALIVE_S))
        if self._now() < end_s:
            for link in links:
                link.cut(spread_s=2.0)
            await self._wait_until(end_s)
        for link, blockade in blockades:
            link.open(blockade)

    async def _slow_down(self) -> None:
        link = self._chance.choice(self.cluster.network.links())
        end_s = self._end_s(self._chance.uniform(0.5, 5))
        link.slowness = self._chance.choice((10.0, 100.0, 400.0))
        self._trace.note(f"a link is {link.slowness:g} times slower")
        link.faulty_until_s = max(link.faulty_until_s, end_s + 1)
        await self._wait_until(end_s)
        link.slowness = 1.0

    async def _kill_node(self) -> None:
        machine = self._chance.choice(self.cluster.node_machines)
        if machine.is_up:
            self.cluster.kill(machine)
            lost = self._chance.choice(((), (), (Tier.DRAM,), (Tier.DRAM, Tier.SSD)))
            for tier in lost:
                self.cluster.plans[machine.name].disks[tier].empty()
            await self._wait_until(self._end_s(self._chance.choice((0.05, 0.5, 3.0, 6.0))))
            self.cluster.start_node(machine)

    async def _send_away(self) -> None:
        """Have a node hand over what it has, and leave before it is done, or after."""
        machine = self._node()
        process, player = machine.process, self._chance.choice(self.cluster.players)
        self._trace.note(f"{machine.name} is to leave")
        self._ask(player, player.kv.drain_node(machine.name))
        await self._wait_until(self._end_s(self._chance.choice((0.1, 1.0, 4.0))))
        if machine.process is process and process is not None:
            self.cluster.kill(machine)
            await self._wait_until(self._end_s(self._chance.choice((0.05, 1.0))))
            self.cluster.start_node(machine)

    async def _call_back(self) -> None:
        """Let no node leave that was told too late: its order was under way when it was killed."""
        await asyncio.sleep(CALL_BACK_S)
        player = self.cluster.players[0]
        for name, node in self.cluster.nodes.items():
            if node.node.drain.is_draining:
                self._ask(player, player.kv.drain_node(name, cancel=True))

    async def _kill_router(self) -> None:
        machine = self._chance.choice(self.cluster.router_machines)
        if machine.is_up:
            self.cluster.kill(machine)
            await self._wait_until(self._end_s(self._chance.choice((0.05, 0.5, 3.0))))
            self.cluster.start_router(machine)

    async def _jump(self) -> None:
        machine = self._chance.choice(self.cluster.machines)
        jump_s = self._chance.choice((0.5, 3.0, 30.0, 4000.0))
        self._trace.note(f"the clock of {machine.name} jumps by {jump_s:g} s")
        machine.clock.ahead_s += jump_s

    async def _fail_disk(self) -> None:
        disk = self.cluster.plans[self._node().name].disks[self._tier()]
        if self._chance.random() < 0.3:
            disk.content.is_full = True
            self._trace.note(f"{disk.name} is full")
        else:
            disk.fail()
            self._trace.note(f"{disk.name} fails")
        await self._wait_until(self._end_s(self._chance.uniform(0.1, 3)))
        disk.heal()

    async def _empty_disk(self) -> None:
        disk = self.cluster.plans[self._node().name].disks[self._tier()]
        self._trace.note(f"{disk.name} is emptied")
        disk.empty()

    async def _damage(self) -> None:
        disk = self.cluster.plans[self._node().name].disks[self._tier()]
        for _ in range(self._chance.randint(1, 4)):
            if disk.damage(self._chance):
                self._trace.note(f"{disk.name} flips a bit")

    async def _ask_for_odd_things(self) -> None:
        """Drop, pin and prefetch what may be in use."""
        player = self._chance.choice(self.cluster.players)
        node = self.cluster.plans[self._node().name].address
        spec, keys = self._chance.choice(
            list(self.cluster.lineages.prompts.values()) or [(None, [])]
        )
        if spec is None:
            return
        session = self._chance.choice(player.sessions)
        asked: Coroutine[Any, Any, object]
        chance = self._chance.random()
        if chance < 0.4:
            at = self._chance.randrange(len(keys))
            asked = player.kv.drop(
                node, DropBlocks(spec.namespace_id, PackedKeys.join(keys[at : at + 2]))
            )
        elif chance < 0.5:
            asked = player.kv.drop(node, DropSession(SessionId(session.session_id)))
        elif chance < 0.55:
            asked = player.kv.drop(node, DropNamespace(spec.namespace_id))
        elif chance < 0.8:
            asked = player.kv.prefetch(node, session.spec, session.tokens)
        else:
            asked = player.kv.pin(
                node, session.spec, session.tokens, ttl_s=self._chance.uniform(0.1, 3)
            )

        self._ask(player, asked)

    def _ask(self, player: Player, asked: Coroutine[Any, Any, object]) -> None:
        """Let a player ask for something that may fail."""

        async def ask() -> None:
            try:
                await asked
            except PeerError:
                self._trace.note(f"{player.name} was not heard")

        player.process.spawn(ask())

    async def _leave_a_turn(self) -> None:
        """Cancel what a session is at, and let it begin its next turn."""
        at = self._chance.randrange(len(self._plays))
        player = self.cluster.players[at % len(self.cluster.players)]
        session = self._chance.choice(player.sessions)
        self._plays[at].cancel()
        self._trace.note("a turn is left")
        self._plays[at] = self.cluster.play(player, session, self.until_s)

    def _node(self) -> Machine:
        return self._chance.choice(self.cluster.node_machines)

    def _tier(self) -> Tier:
        return self._chance.choice((Tier.DRAM, Tier.SSD))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _end_s(self, seconds: float) -> float:
        """When a trouble that lasts so long ends; never after it has to be quiet."""
        return min(self._now() + seconds, self.until_s)

    async def _wait_until(self, at_s: float) -> None:
        await asyncio.sleep(max(0.0, at_s - self._now()))
