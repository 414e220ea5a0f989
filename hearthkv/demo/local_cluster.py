"""A cluster on this machine: a router, cache nodes with their Redis, and an engine beside each."""

import asyncio
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hearthkv.core.errors import StartupError
from hearthkv.demo.cluster_plan import (
    HOST,
    ROUTER,
    ClusterLayout,
    ClusterPlan,
    LocalNode,
    kv_cache_toml,
    lay_out,
    port_count,
    server_specs,
)
from hearthkv.demo.processes import ServerProcess, WatchedGroup
from hearthkv.demo.redis_binary import find_redis_server


@dataclass(frozen=True, slots=True)
class ServerEnd:
    """A server that ended by itself."""

    name: str
    exit_code: int
    """Negative for a signal."""


class LocalCluster:
    """A running cluster, as `local_cluster` starts it."""

    def __init__(self, plan: ClusterPlan, layout: ClusterLayout, group: WatchedGroup) -> None:
        self._plan = plan
        self._layout = layout
        self._group = group
        self._specs = server_specs(plan.commands, layout)
        self._servers: dict[str, ServerProcess] = {}

    @property
    def layout(self) -> ClusterLayout:
        """Where everything is."""
        return self._layout

    @property
    def nodes(self) -> tuple[LocalNode, ...]:
        """The nodes that were started, the killed ones included."""
        return self._layout.nodes

    def node(self, node_id: str) -> LocalNode:
        """Return a node by its id."""
        return next(node for node in self.nodes if node.name == node_id)

    async def ends(self) -> AsyncIterator[ServerEnd]:
        """Give each server that ends by itself, as it happens; return when none is left."""
        waits = {asyncio.create_task(server.wait()): name for name, server in self._servers.items()}
        try:
            while waits:
                done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for wait in done:
                    yield ServerEnd(waits.pop(wait), wait.result())
        finally:
            for wait in waits:
                wait.cancel()

    def is_running(self, name: str) -> bool:
        """Whether a server has not ended."""
        return self._servers[name].exit_code is None

    async def start(self) -> None:
        """
        Start all servers.

        Raises:
            StartupError: If one of them doesn't come up.
        """
        # Each wave needs the one before: nodes their Redis and router, engines their node.
        for names in reversed(self._waves()):
            await self._start(names)

    async def kill(self, name: str) -> None:
        """End a server by SIGKILL, as a crash would."""
        await self._servers[name].kill()

    async def restart(self, name: str) -> None:
        """
        Stop a server, if it runs, and start it again at the same address.

        Raises:
            StartupError: If it doesn't come up again.
        """
        await self._servers[name].stop(self._plan.grace_s)
        await self._start([name])

    async def stop(self) -> None:
        """Stop all servers. The engines go first: their last saves need their nodes."""
        for names in self._waves():
            started = [self._servers[name] for name in names if name in self._servers]
            await asyncio.gather(*(server.stop(self._plan.grace_s) for server in started))

    async def _start(self, names: Sequence[str]) -> None:
        for name in names:
            self._servers[name] = await ServerProcess.start(
                self._specs[name], self._group, self._layout.log_path(name)
            )
        # They come up side by side; the first trouble in this order is the one reported.
        for name in names:
            await self._servers[name].wait_ready(self._plan.start_timeout_s)

    def _waves(self) -> list[list[str]]:
        return [
            [node.engine_name for node in self.nodes],
            [node.name for node in self.nodes],
            [ROUTER, *(node.redis_name for node in self.nodes)],
        ]


@asynccontextmanager
async def local_cluster(plan: ClusterPlan) -> AsyncIterator[LocalCluster]:
    """
    Start a cluster, and stop everything at the end, whatever the end is.

    Logs, sockets and SSD files lie in a run folder of mode 0700, which goes at the end. After
    an error it stays, without the SSD files, for its logs say more than the error.

    Raises:
        StartupError: If a server doesn't come up, or nothing can be started at all.
    """
    if not plan.commands.redis:
        redis = (str(find_redis_server()),)
        plan = replace(plan, commands=replace(plan.commands, redis=redis))
    layout = lay_out(plan, _make_run_folder(), free_ports(port_count(plan)))
    try:
        layout.settings_file.write_text(kv_cache_toml(plan.kv_cache), encoding="utf-8")
        for node in layout.nodes:
            layout.ssd_folder(node).mkdir()
        async with WatchedGroup(plan.grace_s, layout.run_folder) as group:
            cluster = LocalCluster(plan, layout, group)
            try:
                await cluster.start()
                yield cluster
            finally:
                await cluster.stop()
    except Exception:
        for node in layout.nodes:
            shutil.rmtree(layout.ssd_folder(node), ignore_errors=True)
        raise
    except BaseException:
        shutil.rmtree(layout.run_folder, ignore_errors=True)
        raise
    shutil.rmtree(layout.run_folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Return TCP ports of this machine that are free now, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]


def _make_run_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="hearthkv-"))
    except OSError as error:
        raise StartupError(
            f"no folder can be made for sockets and logs: {error.strerror}: {error.filename}"
        ) from error
