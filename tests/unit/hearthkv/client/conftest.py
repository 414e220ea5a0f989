"""Channels that are closed after each test."""

from collections.abc import AsyncIterator

import pytest

from hearthkv.client.channels import Channels


@pytest.fixture
async def channels() -> AsyncIterator[Channels]:
    opened = Channels()
    yield opened
    await opened.close()
