"""One simulation, from its seed to its verdict."""

import asyncio
import gc
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from hearthkv.core.clock import ManualClock
from tests.scenario.sim.audit import Audit
from tests.scenario.sim.chaos import Chaos
from tests.scenario.sim.cluster import SimCluster
from tests.scenario.sim.grpc_client import channels_over
from tests.scenario.sim.loop import SimLoop
from tests.scenario.sim.machines import note_task
from tests.scenario.sim.players import Tally
from tests.scenario.sim.trace import Trace

START_S = 1.0
TROUBLE_S = 8.0
HAND_OVER_S = 20.0
QUIET_S = 7.0
"""Time for all to find each other again: nodes try a lost router every 5 s."""


@dataclass(frozen=True)
class Report:
    """What came of a simulation in which everything held."""

    digest: str
    steps: int
    tally: Tally


Story = Callable[[SimCluster], Coroutine[Any, Any, None]]


def simulate(seed: int) -> Report:
    """
    Play one cluster's life: a while in trouble, and a while in quiet.

    Raises:
        Violation: If an invariant did not hold at some step.
    """
    return _play(seed, _live, room=1)


def simulate_departure(seed: int) -> Report:
    """
    Let a node leave a cluster that is well.

    Raises:
        Violation: If a session lost a block by it, or an invariant did not hold.
    """
    return _play(seed, _leave, room=20)


def _play(seed: int, story: Story, *, room: int) -> Report:
    clock = ManualClock()
    trace = Trace(seed, clock)
    loop = SimLoop(clock, trace, note_task)
    cluster = SimCluster(random.Random(seed), clock, trace, room=room)
    gc.disable()
    try:
        with channels_over(cluster.fabric):
            living = loop.create_task(story(cluster))
            try:
                _run(loop, living)
            finally:
                _end(loop, cluster, living)
    finally:
        loop.close()
        gc.enable()
    if trace.failure is not None:
        raise trace.failure
    living.result()
    return Report(trace.digest, trace.steps, cluster.tally)


async def _live(cluster: SimCluster) -> None:
    """A while in trouble, then a while in quiet, and one more turn of every session."""
    cluster.start()
    audit = Audit(cluster)
    looking = asyncio.create_task(audit.run())
    await asyncio.sleep(START_S)
    await Chaos(cluster, START_S + TROUBLE_S).run()
    await asyncio.sleep(QUIET_S)
    looking.cancel()
    audit.judge()
    await cluster.play_once_more()
    await asyncio.sleep(1.0)
    audit.judge()


async def _leave(cluster: SimCluster) -> None:
    """Play, have a node hand over what it has, take it away, and play on."""
    cluster.start()
    await asyncio.sleep(START_S)
    playing = cluster.begin_sessions(START_S + TROUBLE_S)
    await asyncio.sleep(cluster.chance.uniform(0.7, 1.4) * TROUBLE_S)
    machine = cluster.chance.choice(cluster.node_machines)
    leaving = cluster.nodes[machine.name].node.drain
    player = cluster.chance.choice(cluster.players)
    player.process.spawn(player.kv.drain_node(machine.name))
    await asyncio.wait(playing)
    await asyncio.sleep(HAND_OVER_S)
    left = leaving.sessions_left()
    cluster.trace.check(left == 0, "drain", f"{left} sessions are not handed over")
    held = {
        session.session_id: cluster.held_blocks(session)
        for player in cluster.players
        for session in player.sessions
    }
    cluster.kill(machine)
    for player in cluster.players:
        for session in player.sessions:
            await asyncio.wait({player.process.spawn(player.play_on(session))})
            before = held[session.session_id]
            cluster.trace.check(
                session.loaded_blocks >= before,
                "drain",
                f"{session.session_id} had {before} blocks, and finds {session.loaded_blocks} "
                f"after {machine.name} left",
            )


def _run(loop: SimLoop, living: "asyncio.Task[None]") -> None:
    living.add_done_callback(lambda _: loop.stop())
    loop.run_forever()


def _end(loop: SimLoop, cluster: SimCluster, living: "asyncio.Task[None]") -> None:
    """End all that still runs, so that nothing of this simulation reaches the next."""
    loop.is_ending = True
    for machine in cluster.machines:
        if machine.process is not None:
            machine.process.kill()
    living.cancel()
    for _ in range(20):
        left = asyncio.all_tasks(loop)
        if not left:
            break
        for task in left:
            task.cancel()
        loop.call_later(1.0, loop.stop)
        loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
