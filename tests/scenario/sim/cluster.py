"""A simulated cluster: machines, what runs on them, and the clients that use it."""

import asyncio
import random

from hearthkv.client.kv import HearthKV
from hearthkv.core.block_frame import FRAME_BYTES
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.clock import ManualClock
from hearthkv.core.tier import Tier
from tests.scenario.sim.disk import Disk
from tests.scenario.sim.machines import Machine, Process
from tests.scenario.sim.network import Link, Network
from tests.scenario.sim.oracle import SPECS, Lineages, WatchedLog
from tests.scenario.sim.players import SETTINGS, Player, Session, Tally
from tests.scenario.sim.rpc import Fabric
from tests.scenario.sim.servers import (
    POLICIES,
    NodePlan,
    NodeProcess,
    RouterProcess,
    router_address,
    start_node,
    start_router,
    telemetry,
)
from tests.scenario.sim.trace import Trace

BLOCK_BYTES = FRAME_BYTES + max(spec.block_bytes for spec in SPECS)


class SimCluster:
    """
    Everything that is there. What happens in it is decided elsewhere.

    Args:
        chance: Where all its randomness comes from.
        clock: The time.
        trace: Is told everything.
        room: How many times the usual a node may hold, which is little.
    """

    def __init__(
        self, chance: random.Random, clock: ManualClock, trace: Trace, *, room: int = 1
    ) -> None:
        self._room = room
        self.chance = chance
        self.trace = trace
        self.tally = Tally()
        self.lineages = Lineages()
        self.network = Network(random.Random(chance.random()))
        self.fabric = Fabric(self.network, trace)
        self.router_machines = self._machines("router", chance.choice((2, 2, 3)), clock)
        self.node_machines = self._machines("node", chance.choice((2, 3, 3, 4)), clock)
        self.client_machines = self._machines("client", 2, clock)
        self.routers: dict[str, RouterProcess] = {}
        self.nodes: dict[str, NodeProcess] = {}
        self.players: list[Player] = []
        self.clients: list[HearthKV] = []
        self.plans = {machine.name: self._plan(machine) for machine in self.node_machines}
        self._connect_all()

    @property
    def machines(self) -> list[Machine]:
        return [*self.router_machines, *self.node_machines, *self.client_machines]

    def links_of(self, machine: Machine) -> list[Link]:
        return self.network.links_of(machine.host)

    def start(self) -> None:
        """Start all servers and clients."""
        for machine in self.router_machines:
            self.start_router(machine)
        for machine in self.node_machines:
            self.start_node(machine)
        for machine in self.client_machines:
            self._start_client(machine)

    def start_router(self, machine: Machine) -> None:
        process = self._start(machine)
        self.routers[machine.name] = start_router(machine, process, self.fabric)

    def start_node(self, machine: Machine) -> None:
        process = self._start(machine)
        log = WatchedLog(str(process), self.lineages, self.trace)
        process.on_kill.append(lambda: setattr(log, "is_alive", False))
        self.nodes[machine.name] = process.context.copy().run(
            start_node, self.plans[machine.name], process, log, self.fabric, self.chance
        )

    def kill(self, machine: Machine) -> None:
        """Kill what runs on a machine."""
        process = machine.process
        assert process is not None
        self.trace.note(f"kill {process}")
        self.routers.pop(machine.name, None)
        self.nodes.pop(machine.name, None)
        process.kill()
        self.fabric.close(process)

    def begin_sessions(self, until_s: float) -> list[asyncio.Task[None]]:
        """Let every player play some sessions until the hour."""
        return [
            self.play(player, player.new_session(number), until_s)
            for player in self.players
            for number in range(2)
        ]

    def play(self, player: Player, session: Session, until_s: float) -> asyncio.Task[None]:
        return player.process.spawn(player.play(session, until_s))

    async def play_once_more(self) -> None:
        """Let every session have a turn in which nothing may go wrong, one after the other."""
        # One after the other, because of those who come to a peer that failed, one tries first.
        for player in self.players:
            for session in player.sessions:
                await asyncio.wait({player.process.spawn(player.play_well(session))})

    def held_blocks(self, session: Session) -> int:
        """The longest prefix of a session that some node holds."""
        spec, keys = self.lineages.prompts[session.session_id]
        query = PackedKeys.join(keys)
        return max(
            node.node.catalog.match(spec.namespace_id, query).total for node in self.nodes.values()
        )

    def _start(self, machine: Machine) -> Process:
        process = Process(machine, self.trace)
        self.trace.note(f"start {process}")
        return process

    def _start_client(self, machine: Machine) -> None:
        process = self._start(machine)
        addresses = [router_address(each) for each in self.router_machines]
        self.chance.shuffle(addresses)
        kv = HearthKV(addresses, SETTINGS, telemetry(), machine.clock)
        self.clients.append(kv)
        self.players.append(
            Player(
                process,
                kv,
                len(addresses),
                lineages=self.lineages,
                trace=self.trace,
                chance=random.Random(self.chance.random()),
                tally=self.tally,
            )
        )

    def _plan(self, machine: Machine) -> NodePlan:
        blocks = {Tier.DRAM: self.chance.randint(20, 60), Tier.SSD: self.chance.randint(40, 150)}
        return NodePlan(
            machine=machine,
            disks={
                tier: Disk(
                    f"{machine.name}/{tier.name}",
                    tier,
                    self._room * count * BLOCK_BYTES,
                    self.trace,
                )
                for tier, count in blocks.items()
            },
            policy=self.chance.choice(POLICIES),
            routers=tuple(router_address(router) for router in self.router_machines),
        )

    def _machines(self, kind: str, count: int, clock: ManualClock) -> list[Machine]:
        subnet = ("router", "node", "client").index(kind)
        return [
            Machine(f"{kind}-{letter}", f"10.0.{subnet}.{number}", clock)
            for number, letter in enumerate("abcd"[:count], start=1)
        ]

    def _connect_all(self) -> None:
        hosts = [machine.host for machine in self.machines]
        for at, one in enumerate(hosts):
            for other in hosts[at + 1 :]:
                self.network.link(one, other)
