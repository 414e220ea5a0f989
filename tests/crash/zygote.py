"""
A process that has everything imported, and forks a node for each story that it is told.

`python -m tests.crash.zygote`: one line of JSON a story on its input, one line with the exit
status of the node on its output. It runs no thread and no event loop of its own, so that a fork
of it is whole.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from hearthkv.core.block_io import DropBlocks
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.tier import Tier
from tests.crash.stores import Stage, node_over
from tests.crash.story import Knife, Operation, Story
from tests.node_rig import SPEC, Rig

EFFECTS = {"pwritev", "pwrite", "ftruncate", "open", "unlink", "sendmsg", "send", "close"}
"""Calls into C that change a file or send something."""


class Blade:
    """Kills after so many steps, in whatever thread they happen; before the step itself."""

    def __init__(self, knife: Knife, redis_pid: int) -> None:
        self._victims = knife.victims
        self._steps_left = knife.steps
        self._is_effect_counted = knife.unit == "effects"
        self._redis_pid = redis_pid
        self._is_armed = False
        threading.setprofile(self._count)  # for the threads that are yet to come
        sys.setprofile(self._count)

    def arm(self) -> None:
        """Begin to count."""
        self._is_armed = True

    def fall(self) -> None:
        """Kill."""
        self._is_armed = False
        if self._victims != "node":
            os.kill(self._redis_pid, signal.SIGKILL)
        if self._victims != "redis":
            os.kill(os.getpid(), signal.SIGKILL)

    def fall_if_armed(self) -> None:
        """Kill at the end of the story, where that was shorter than the count."""
        if self._is_armed:
            self.fall()

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        if not self._is_armed:
            return
        if self._is_effect_counted:
            name = getattr(argument, "__name__", "")
            if event != "c_call" or name not in EFFECTS:
                return
        self._steps_left -= 1
        if self._steps_left < 0:
            self.fall()


async def live(story: Story, blade: Blade, redis_url: str, folder: Path, reports: int) -> None:
    """Do what the story says, and report every operation that came to its end."""
    limits = {"dram_blocks": story.dram_blocks, "ssd_blocks": story.ssd_blocks}
    async with node_over(redis_url, folder, epoch=1, **limits) as stage:
        rig = stage.rig
        await rig.node.look_at_stores()
        for number, operation in enumerate(story.operations):
            if number == story.knife.operation:
                blade.arm()
            statuses: list[str] = []
            async with _busy(rig) if operation.is_busy else _idle():
                statuses = await _do(stage, operation)
            report = {"statuses": statuses, **_holdings(rig)}
            os.write(reports, json.dumps(report).encode() + b"\n")
        blade.fall_if_armed()


async def _do(stage: Stage, operation: Operation) -> list[str]:
    rig, keys = stage.rig, operation.keys
    if operation.kind == "write":
        return [status.value for status in await rig.write(keys)]
    if operation.kind == "direct":
        return [status.value for status in await stage.write_directly(keys)]
    if operation.kind == "read":
        await rig.read(keys)
    elif operation.kind == "prefetch":
        rig.prefetch(keys)
    elif operation.kind == "drop":
        rig.node.drop(DropBlocks(SPEC.namespace_id, PackedKeys.join(keys[-1:])))
    else:
        await rig.node.settle()
    return []


def _holdings(rig: Rig) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {Tier.DRAM.name: [], Tier.SSD.name: []}
    for part in rig.node.catalog.snapshot():
        if part.tier is not None:
            keys[part.tier.name] += [key.hex() for key in part.keys]
    return keys


@asynccontextmanager
async def _busy(rig: Rig) -> AsyncIterator[None]:
    """Move and erase blocks meanwhile, to the end."""
    moving = asyncio.create_task(rig.node.settle())
    yield
    await moving


@asynccontextmanager
async def _idle() -> AsyncIterator[None]:
    yield


def main() -> None:
    """Fork a node for every story."""
    for line in sys.stdin:
        told = json.loads(line)
        child = os.fork()
        if not child:
            _be_the_node(told)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _be_the_node(told: dict[str, object]) -> NoReturn:
    story = Story.from_json(told["story"])
    blade = Blade(story.knife, told["redis_pid"])
    reports = os.open(told["reports"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    status = 1
    try:
        asyncio.run(live(story, blade, told["redis_url"], Path(told["folder"]), reports))
        status = 0
    finally:
        if status:
            traceback.print_exc()
        os._exit(status)  # and run nothing that belongs to the process it was forked from


if __name__ == "__main__":
    main()
