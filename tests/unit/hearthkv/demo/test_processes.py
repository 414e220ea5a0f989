"""Processes come up, or say why not, and none is left behind."""

import os
import signal
import sys
from pathlib import Path

import pytest

from hearthkv.core.errors import StartupError
from hearthkv.demo.cluster_plan import ProcessSpec
from hearthkv.demo.processes import ServerProcess, WatchedGroup

FAKE_SERVER = str(Path(__file__).with_name("fake_server.py"))
READY_S = 30.0


def spec(mode: str) -> ProcessSpec:
    return ProcessSpec("router", (sys.executable, FAKE_SERVER, mode))


@pytest.fixture
async def group(tmp_path: Path):
    async with WatchedGroup(0.1, tmp_path / "run") as group:
        yield group


async def test_a_server_that_writes_its_line_is_ready(group: WatchedGroup, tmp_path: Path):
    server = await ServerProcess.start(spec("good"), group, tmp_path / "log")
    await server.wait_ready(READY_S)
    assert server.exit_code is None
    await server.stop(READY_S)
    assert server.exit_code == -signal.SIGTERM
    assert "READY address=" in (tmp_path / "log").read_text()


async def test_a_server_in_trouble_is_quoted_in_one_line(group: WatchedGroup, tmp_path: Path):
    server = await ServerProcess.start(spec("trouble"), group, tmp_path / "log")
    with pytest.raises(StartupError) as caught:
        await server.wait_ready(READY_S)
    assert str(caught.value) == "router can't start: port 7400 is in use, choose another one"


async def test_a_crash_shows_the_end_of_the_log(group: WatchedGroup, tmp_path: Path):
    server = await ServerProcess.start(spec("crash"), group, tmp_path / "log")
    with pytest.raises(StartupError, match=r"ended with code 1; the end of (?s:.)*something broke"):
        await server.wait_ready(READY_S)


async def test_a_server_that_stays_silent_is_given_up(group: WatchedGroup, tmp_path: Path):
    server = await ServerProcess.start(spec("silent"), group, tmp_path / "log")
    with pytest.raises(StartupError, match="does not serve after 0 s; its log is empty"):
        await server.wait_ready(0)
    await server.stop(READY_S)


async def test_a_program_that_is_not_there_is_named(group: WatchedGroup, tmp_path: Path):
    absent = ProcessSpec("router", (str(tmp_path / "absent"),))
    with pytest.raises(StartupError, match=r"router can't be started: .*absent: No such file"):
        await ServerProcess.start(absent, group, tmp_path / "log")


async def test_a_server_that_ignores_sigterm_is_killed(group: WatchedGroup, tmp_path: Path):
    server = await ServerProcess.start(spec("stubborn"), group, tmp_path / "log")
    await server.wait_ready(READY_S)
    await server.stop(0.05)
    assert server.exit_code == -signal.SIGKILL


async def test_stopping_twice_and_killing_the_dead_do_nothing(group: WatchedGroup, tmp_path: Path):
    server = await ServerProcess.start(spec("good"), group, tmp_path / "log")
    await server.wait_ready(READY_S)
    await server.kill()
    await server.kill()
    await server.stop(READY_S)
    assert server.exit_code == -signal.SIGKILL


async def test_the_servers_are_in_the_group_and_not_in_ours(group: WatchedGroup, tmp_path: Path):
    server = await ServerProcess.start(spec("good"), group, tmp_path / "log")
    assert os.getpgid(server.pid) == group.group_id != os.getpgid(0)
    await server.stop(READY_S)


async def test_what_is_left_in_a_group_ends_with_it(tmp_path: Path):
    async with WatchedGroup(0.1, tmp_path / "run") as group:
        server = await ServerProcess.start(spec("stubborn"), group, tmp_path / "log")
        await server.wait_ready(READY_S)
    await server.stop(READY_S)
    assert server.exit_code == -signal.SIGKILL
