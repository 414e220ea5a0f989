"""
Kill a node, its Redis, or both, anywhere in a story of writes, moves and erasures.

Real processes, a real Redis and real files. What must hold afterwards, in the words of the
design: I1 right bytes or none, I2 prefix-closed, I3 bounded, I4 survives. More stories than the
usual run's: `make crash N=5000`.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from hearthkv.core.block_io import ReadEnd
from hearthkv.core.tier import Tier
from tests.conftest import StartRedis
from tests.crash.stores import node_over
from tests.crash.story import (
    BLOCKS_MAX,
    PROMPTS,
    Knife,
    Operation,
    Said,
    Story,
    keys_of,
    stories,
    understood,
)
from tests.node_rig import STORED_BYTES, Rig
from tests.redis_process import RedisProcess


class Theatre:
    """Plays stories: a Redis, and a process that forks nodes."""

    def __init__(self, redis: RedisProcess, zygote: subprocess.Popen[str]) -> None:
        self.redis = redis
        self._zygote = zygote

    def play(self, story: Story, folder: Path) -> list[str]:
        """Let a node live and die, and return what it reported."""
        self.redis.command("FLUSHALL")
        reports = folder / "reports"
        reports.touch()
        told = {
            "story": story.to_json(),
            "redis_url": self.redis.url,
            "redis_pid": self.redis.pid,
            "folder": str(folder / "ssd"),
            "reports": str(reports),
        }
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.write(json.dumps(told) + "\n")
        self._zygote.stdin.flush()
        status = self._zygote.stdout.readline().strip()
        if story.knife.victims != "node":
            self.redis.kill()
            self.redis.start()
        assert status == ("0" if story.knife.victims == "redis" else "-9")
        return reports.read_text().splitlines()


@pytest.fixture(scope="module")
def theatre(start_redis: StartRedis) -> Iterator[Theatre]:
    command = [sys.executable, "-m", "tests.crash.zygote"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as zygote:
        yield Theatre(start_redis(), zygote)
        assert zygote.stdin is not None
        zygote.stdin.close()


@pytest.fixture(scope="session")
def crash_examples(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--crash-examples"))


def test_what_was_acknowledged_survives_a_kill_at_any_moment_I1_I2_I3_I4(  # noqa: N802
    theatre: Theatre, crash_examples: int
):
    @settings(max_examples=crash_examples)
    @given(story=stories())
    def survives(story: Story) -> None:
        _survives(theatre, story)

    survives()


LIFE = (
    Operation("write", 0, BLOCKS_MAX, is_busy=False),
    Operation("write", 1, BLOCKS_MAX, is_busy=True),
    Operation("settle", 0, 1, is_busy=False),
    Operation("prefetch", 0, BLOCKS_MAX, is_busy=False),
    Operation("direct", 2, BLOCKS_MAX, is_busy=True),
    Operation("settle", 0, 1, is_busy=False),
    Operation("drop", 1, BLOCKS_MAX, is_busy=False),
    Operation("settle", 0, 1, is_busy=False),
)


@pytest.mark.parametrize("operation", range(len(LIFE)))
@pytest.mark.parametrize("victims", ["node", "both"])
def test_a_kill_before_each_effect_of_a_life_in_turn_I1_I2_I3_I4(  # noqa: N802
    theatre: Theatre, victims: str, operation: int
):
    steps = 0
    reported = 0
    while reported <= operation:
        knife = Knife(victims, operation, "effects", steps)
        reported = _survives(theatre, Story(LIFE, knife, dram_blocks=6, ssd_blocks=100))
        steps += 1


def _survives(theatre: Theatre, story: Story) -> int:
    """Play a story, check what is left, and return how many operations came to their end."""
    folder = Path(tempfile.mkdtemp(prefix="hkv-crash-"))
    try:
        reports = theatre.play(story, folder)
        asyncio.run(_check(theatre.redis, folder, story, understood(story, reports)))
    finally:
        shutil.rmtree(folder)
    return len(reports)


async def _check(redis: RedisProcess, folder: Path, story: Story, said: Said) -> None:
    limits = {"dram_blocks": story.dram_blocks, "ssd_blocks": story.ssd_blocks}
    async with node_over(redis.url, folder / "ssd", epoch=2, **limits) as stage:
        rig = stage.rig
        found = set()
        for name in range(PROMPTS):
            found |= await _readable(rig, name)
        if story.has_room and story.knife.victims == "node":
            assert said.held <= found
        if story.has_room:
            assert _rooted(said.on_ssd) <= found
        await rig.node.settle()
        for tier in (Tier.DRAM, Tier.SSD):
            usage = rig.usage(tier)
            assert usage.reserved_bytes == 0
            assert usage.used_bytes <= usage.limit_bytes
            frames = await stage.stored_frames(tier)
            assert len(frames) == usage.blocks
            assert usage.used_bytes == len(frames) * STORED_BYTES
        # A second start finds the very same.
        before = rig.node.usage()
    async with node_over(redis.url, folder / "ssd", epoch=3, **limits) as stage:
        assert stage.rig.node.usage() == before


async def _readable(rig: Rig, name: int) -> set[bytes]:
    """The blocks of a prompt that are held; each is read, and is what was written (I1, I2)."""
    keys = keys_of(name, BLOCKS_MAX)
    count, end = await rig.read(keys)
    assert count == rig.match(keys)
    assert end is (ReadEnd.COMPLETE if count == len(keys) else ReadEnd.MISS)
    return set(keys[:count])


def _rooted(keys: frozenset[bytes]) -> set[bytes]:
    """Those of which all blocks before them are there too."""
    rooted = set()
    for name in range(PROMPTS):
        for key in keys_of(name, BLOCKS_MAX):
            if key not in keys:
                break
            rooted.add(key)
    return rooted
