"""
A node under full load for a while: `make soak S=600` for ten minutes.

Memory, descriptors and connections stay flat, no tier is ever over its limit (I3), and no byte is
wrong (I1). How long it runs says nothing about how fast it is.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from tests.conftest import StartRedis
from tests.redis_process import RedisProcess
from tests.system.metrics_page import metric_values
from tests.system.server_process import ServerProcess, server

WORKERS = ("direct", "stream")
CAPACITY = (
    "--cache-capacity-gb=0.2",
    "--hbm-ratio=0",
    "--dram-ratio=0.5",
    "--ssd-ratio=0.5",
)
SAMPLE_EVERY_S = 1.0
RSS_SLACK_BYTES = 32 * 1024 * 1024
"""What allocators and page tables may add after the first half: noise, not a leak."""

DESCRIPTORS_SLACK = 8


@dataclass(frozen=True, slots=True)
class Sample:
    """The node at one moment."""

    rss_bytes: int
    descriptors: int
    redis_connections: int
    fill: tuple[float, ...]
    """Of each tier's limit, copies that are being written included."""


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sample(node: ServerProcess, redis: RedisProcess) -> Sample:
    metrics = metric_values(node.metrics_address)
    fill = []
    for tier in ("dram", "ssd"):
        used, reserved, limit = (
            metrics[f'cachenode_tier_{what}_bytes{{tier="{tier}"}}']
            for what in ("used", "reserved", "limit")
        )
        fill.append((used + reserved) / limit)
    pid = node.process.pid
    connections = redis.command("INFO", "clients").split(b"connected_clients:")[1].split(b"\r")[0]
    return Sample(
        rss_bytes(pid), len(list(Path(f"/proc/{pid}/fd").iterdir())), int(connections), tuple(fill)
    )


@contextmanager
def workers(node: ServerProcess, seconds: float) -> Iterator[list[subprocess.Popen[str]]]:
    running = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.soak.load",
                node.address,
                str(number),
                path,
                str(seconds),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, path in enumerate(WORKERS)
    ]
    try:
        yield running
    finally:
        for worker in running:
            worker.kill()
            worker.wait()
            assert worker.stdout is not None
            worker.stdout.close()


@pytest.mark.timeout(0)
def test_a_node_under_load_stays_flat_bounded_and_right_I1_I3(  # noqa: N802
    start_redis: StartRedis, tmp_path: Path, request: pytest.FixtureRequest
):
    seconds = float(request.config.getoption("--soak-seconds"))
    redis = start_redis()
    options = ("--redis-urls", redis.url, "--ssd-dir", str(tmp_path / "ssd"), *CAPACITY)
    with server("hearthkv-cachenode", tmp_path, *options) as node:
        with workers(node, seconds) as running:
            samples = []
            done = []
            for worker in running:
                while True:
                    samples.append(sample(node, redis))
                    try:
                        said, _ = worker.communicate(timeout=SAMPLE_EVERY_S)
                        break
                    except subprocess.TimeoutExpired:
                        continue
                assert worker.returncode == 0
                done.append(json.loads(said))
        assert "Traceback" not in (tmp_path / "hearthkv-cachenode.log").read_text()
    _tell("RSS, MiB", [each.rss_bytes / 2**20 for each in samples])
    _tell("descriptors", [each.descriptors for each in samples])
    _tell("connections of Redis", [each.redis_connections for each in samples])
    _tell("fill of the fuller tier", [max(each.fill) for each in samples])
    direct, stream = done
    print(*done, sep="\n")
    assert [each["wrong_blocks"] for each in done] == [0, 0]
    assert direct["direct_blocks"] > 0 == stream["direct_blocks"]
    assert stream["loaded_blocks"] > 0
    assert all(fill <= 1 for each in samples for fill in each.fill)
    assert max(fill for each in samples for fill in each.fill) > 0.5  # it was full load
    _assert_flat([each.rss_bytes for each in samples], RSS_SLACK_BYTES)
    _assert_flat([each.descriptors for each in samples], DESCRIPTORS_SLACK)
    _assert_flat([each.redis_connections for each in samples], DESCRIPTORS_SLACK)


def _tell(what: str, values: Sequence[float]) -> None:
    """Show the course of a figure to whoever looks, by `-s` or after a failure."""
    steps = range(0, len(values), max(1, len(values) // 12))
    print(f"{what}:", *(f"{values[step]:.3g}" for step in steps))


def _assert_flat(values: list[int], slack: int) -> None:
    """The last quarter is no higher than the second: the first is the warm-up."""
    quarter = len(values) // 4
    early, late = values[quarter : 2 * quarter], values[-quarter:]
    assert median(late) <= median(early) + slack
