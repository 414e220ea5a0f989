"""Tests of `cachenode.resp_pool`."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from cachenode.resp_connection import RedisPlace, RespError
from cachenode.resp_pool import RespPool
from tests.redis_process import RedisProcess


@pytest.fixture
async def pool(redis_server: RedisProcess):
    pool = RespPool(RedisPlace(path=str(redis_server.socket_path)), connections_max=2)
    yield pool
    pool.close()


async def test_an_idle_connection_is_lent_again(pool: RespPool):
    async with pool.connection() as first:
        pass
    async with pool.connection() as second:
        assert second is first


async def test_a_connection_is_kept_after_an_error_of_the_server(pool: RespPool):
    with pytest.raises(RespError):
        async with pool.connection() as first:
            await first.call((b"NONSENSE",))
    async with pool.connection() as second:
        assert second is first


async def test_a_connection_that_is_of_no_more_use_is_not_lent_again(pool: RespPool):
    async with pool.connection() as first:
        first.close()
    async with pool.connection() as second:
        assert await second.call((b"PING",)) == b"PONG"


async def test_a_connection_that_was_lost_while_idle_is_not_lent_again(pool: RespPool):
    async with pool.connection() as first:
        pass
    first.close()
    async with pool.connection() as second:
        assert await second.call((b"PING",)) == b"PONG"


async def test_no_more_are_lent_than_there_may_be(pool: RespPool):
    async with AsyncExitStack() as lent:
        for _ in range(2):
            await lent.enter_async_context(pool.connection())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), pool.connection():
                pass
    async with pool.connection() as connection:
        assert connection.is_usable


async def test_a_connection_that_comes_back_to_a_closed_pool_is_closed(pool: RespPool):
    async with pool.connection() as connection:
        pool.close()
        assert connection.is_usable
    assert not connection.is_usable
