"""Starts a cluster of fake servers, prints the ids of all its processes, and waits for its end."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from hearthkv.cli.interrupt import run_until_signalled
from hearthkv.demo.cluster_plan import ClusterPlan, ServerCommands
from hearthkv.demo.local_cluster import local_cluster

FAKE = (sys.executable, str(Path(__file__).with_name("fake_server.py")))


async def main(mode: str) -> None:
    good, other = (*FAKE, "good"), (*FAKE, mode)
    commands = ServerCommands(router=good, cachenode=good, engine=other, redis=good)
    plan = ClusterPlan(nodes=2, grace_s=0.3, commands=commands)
    async with local_cluster(plan) as cluster:
        pids = [server.pid for server in cluster._servers.values()]
        print(*pids, os.getpgid(pids[0]), cluster.layout.run_folder, flush=True)
        if sys.argv[2:] == ["raise"]:
            raise ValueError("on purpose")
        await asyncio.get_running_loop().create_future()


try:
    run_until_signalled(main(sys.argv[1]))
except KeyboardInterrupt:
    sys.exit(128 + signal.SIGINT)
