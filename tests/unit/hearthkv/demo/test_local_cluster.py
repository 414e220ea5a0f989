"""A cluster starts in order, and no process of it outlives the one that started it."""

import asyncio
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hearthkv.core.errors import StartupError
from hearthkv.demo.cluster_plan import ClusterPlan, ServerCommands
from hearthkv.demo.local_cluster import ServerEnd, free_ports, local_cluster
from hearthkv.demo.redis_binary import SERVER_NAMES, packaged_server

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
FAKE = (sys.executable, str(HERE / "fake_server.py"))
GOOD = (*FAKE, "good")
PLAN = ClusterPlan(
    nodes=2,
    grace_s=5,
    commands=ServerCommands(router=GOOD, cachenode=GOOD, engine=GOOD, redis=GOOD),
)
END_S = 30.0


async def test_a_cluster_has_its_servers_and_a_folder_of_its_own():
    async with local_cluster(PLAN) as cluster:
        folder = cluster.layout.run_folder
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert [node.name for node in cluster.nodes] == ["node-1", "node-2"]
        assert all(cluster.is_running(name) for name in ("router", "node-1", "redis-2", "engine-2"))
        assert "[kv_cache]" in cluster.layout.settings_file.read_text()
    assert not folder.exists()


async def test_a_killed_server_can_be_started_again_at_its_address():
    async with local_cluster(PLAN) as cluster:
        await cluster.kill("node-1")
        assert not cluster.is_running("node-1")
        await cluster.restart("node-1")
        assert cluster.is_running("node-1")
        log = cluster.layout.log_path("node-1").read_text()
        assert log.count(f"--listen {cluster.node('node-1').address}") == 2


async def test_a_server_that_ends_by_itself_is_told_of():
    async with local_cluster(PLAN) as cluster, aclosing(cluster.ends()) as ends:
        told = asyncio.ensure_future(anext(ends))
        await cluster.kill("redis-2")
        assert await told == ServerEnd("redis-2", -signal.SIGKILL)


async def test_a_server_that_does_not_come_up_stops_the_others_and_keeps_the_logs():
    commands = replace(PLAN.commands, engine=(*FAKE, "crash"))
    with pytest.raises(StartupError, match="engine-1 ended with code 1") as caught:
        async with local_cluster(replace(PLAN, commands=commands)):
            pass
    log = Path(str(caught.value).split("the end of ")[1].split(":\n")[0])
    assert min(path.name for path in log.parent.glob("*.log")) == "engine-1.log"
    assert not list(log.parent.glob("ssd-*"))
    for path in log.parent.iterdir():
        path.unlink()
    log.parent.rmdir()


async def test_a_cluster_finds_its_redis_by_itself():
    async with local_cluster(replace(PLAN, nodes=1, commands=replace(PLAN.commands, redis=()))):
        pass


SERVERS = {str(found) for found in (*map(shutil.which, SERVER_NAMES), packaged_server()) if found}


@pytest.mark.parametrize("server", sorted(SERVERS))
async def test_a_cluster_sees_that_any_redis_of_this_machine_serves(server: str):
    """Each has its own words for it."""
    commands = replace(PLAN.commands, redis=(server,))
    async with local_cluster(replace(PLAN, nodes=1, commands=commands)):
        pass


def test_free_ports_are_different():
    assert len(set(free_ports(20))) == 20


@contextmanager
def player(mode: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[int], Path]]:
    """Start `play_cluster.py`; give it, descriptors of all that it started, and its folder."""
    command = [sys.executable, str(HERE / "play_cluster.py"), mode, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        *pids, folder = process.stdout.readline().split()
        assert len(pids) == 8, "a router, two nodes, stores and engines, and the watchdog"
        descriptors = [_pidfd(int(pid)) for pid in pids]
        try:
            yield process, descriptors, Path(folder)
        finally:
            process.kill()
            for descriptor in descriptors:
                if descriptor >= 0:
                    os.close(descriptor)


def _pidfd(pid: int) -> int:
    """A descriptor that is readable once the process has ended; -1 where it has already."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return -1


def all_end(descriptors: list[int]) -> bool:
    return all(fd < 0 or select.select([fd], [], [], END_S)[0] for fd in descriptors)


@pytest.mark.parametrize("mode", ["good", "stubborn"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_a_signal_to_the_parent(mode: str, number: signal.Signals):
    with player(mode) as (process, descriptors, folder):
        process.send_signal(number)
        assert all_end(descriptors)
        process.wait(END_S)
        assert not folder.exists()


def test_no_process_outlives_an_exception_in_the_parent():
    with player("good", "raise") as (process, descriptors, folder):
        assert all_end(descriptors)
        assert process.wait(END_S) == 1
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
