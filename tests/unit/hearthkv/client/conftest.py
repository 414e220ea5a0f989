"""Channels that are closed after each test, and a node whose stores can be reached."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearthkv.client.channels import Channels
from tests.fakes.direct_node import FakeDirectNode
from tests.redis_process import RedisProcess


@pytest.fixture
async def channels() -> AsyncIterator[Channels]:
    opened = Channels()
    yield opened
    await opened.close()


@pytest.fixture
def direct_node(tmp_path: Path, redis_server: RedisProcess) -> FakeDirectNode:
    """A direct path over an empty Redis and an empty folder."""
    return FakeDirectNode(tmp_path, redis_server)
