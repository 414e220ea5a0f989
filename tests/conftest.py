"""What all tests share: real Redis servers, and how long a search for examples may take."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.redis_process import RedisProcess

StartRedis = Callable[..., RedisProcess]

# A deadline an example would be an assertion about the machine, not about the code.
settings.register_profile(
    "house", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this suite."""
    parser.addoption(
        "--crash-examples", type=int, default=300, help="stories in which a node is killed"
    )
    parser.addoption(
        "--sim-seeds", type=int, default=200, help="clusters that are simulated, one a seed"
    )
    parser.addoption("--sim-seed", type=int, default=None, help="simulate this one cluster only")
    parser.addoption("--soak-seconds", type=float, default=60, help="how long the soak lasts")


@pytest.fixture(scope="session")
def start_redis() -> Iterator[StartRedis]:
    """Start a Redis server; arguments are options of the server. All end with the session."""
    processes: list[RedisProcess] = []
    # Not pytest's folder: the path of a unix socket has at most 107 characters.
    root = Path(tempfile.mkdtemp(prefix="hkv"))

    def start(*options: str) -> RedisProcess:
        folder = root / str(len(processes))
        folder.mkdir()
        process = RedisProcess(folder, *options)
        processes.append(process)
        process.start()
        return process

    yield start
    for process in processes:
        process.kill()
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def _shared_redis(start_redis: StartRedis) -> RedisProcess:
    return start_redis()


@pytest.fixture
def redis_server(_shared_redis: RedisProcess) -> RedisProcess:
    """An empty Redis server that the tests use in turn; don't kill it, start your own."""
    _shared_redis.command("FLUSHALL")
    return _shared_redis
