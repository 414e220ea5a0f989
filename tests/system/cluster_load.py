"""
A load on a cluster from within its network: growing sessions, and observers. Not pure.

Runs in a container, for ever, and prints every call as a line of JSON (see `load_records`).
Whatever the cluster does, no call of the SDK may raise: what does ends the process, traceback
and all.
"""

import asyncio
import random
import sys
from collections.abc import Iterator

from hearthkv.client.kv import HearthKV, connect
from hearthkv.core.errors import PeerError
from hearthkv.core.routing import NodeState
from tests.system.cluster_observers import Observers
from tests.system.growing_session import (
    NODES,
    ROUTERS,
    SETTINGS,
    GrowingSession,
    sessions_at_home,
)
from tests.system.load_records import tell

SESSIONS_PER_NODE = 3

THINK_S = 0.5
"""Longest pause between two turns of a session."""


async def main() -> None:
    """Play until killed. Each half of the sessions asks another router first."""
    observers = Observers()
    first, second = ROUTERS
    async with (
        connect([f"{first}:7400", f"{second}:7400"], settings=SETTINGS) as here,
        connect([f"{second}:7400", f"{first}:7400"], settings=SETTINGS) as there,
    ):
        await nodes_live(here)
        await nodes_live(there)
        current: dict[int, GrowingSession] = {}
        async with asyncio.TaskGroup() as tasks:
            for place in range(SESSIONS_PER_NODE * len(NODES)):
                line = sessions_at_home(NODES[place % len(NODES)], place)
                kv = (here, there)[place // len(NODES) % 2]
                tasks.create_task(play_for_ever(kv, line, place, current))
            tasks.create_task(probe_routes())
            tasks.create_task(observers.watch(current))


async def nodes_live(kv: HearthKV) -> None:
    """Wait until the first router of a client has all nodes."""
    while True:
        try:
            states = [node.endpoint.state for node in await kv.list_nodes()]
        except PeerError:
            states = []
        if states == [NodeState.LIVE] * len(NODES):
            return
        await asyncio.sleep(0.1)


async def play_for_ever(
    kv: HearthKV, line: Iterator[GrowingSession], place: int, current: dict[int, GrowingSession]
) -> None:
    """Play one session after the other; `current` is told which."""
    pause = random.Random(place)
    for session in line:
        current[place] = session
        while not session.is_over:
            await asyncio.sleep(pause.uniform(THINK_S / 4, THINK_S))
            tell(await session.play(kv))


async def probe_routes() -> None:
    """Run the probes; they end only with the load."""
    probes = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.system.route_probes")
    code = await probes.wait()
    raise RuntimeError(f"the probes have ended with {code}, must go on")


if __name__ == "__main__":
    asyncio.run(main())
