"""Tests of `cachenode.buffer_pool`."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachenode.buffer_pool import IDLE_BYTES_MAX, SMALLEST_BYTES, BufferPool, Lease

SIZE = SMALLEST_BYTES


@pytest.fixture
def pool() -> BufferPool:
    return BufferPool(4 * SIZE)


async def lend_all(pool: BufferPool) -> list[Lease]:
    return [await pool.lend(SIZE) for _ in range(4)]


async def test_a_buffer_has_the_size_that_was_asked_for(pool: BufferPool):
    for size_bytes in (1, SIZE - 1, SIZE, SIZE + 1):
        lease = await pool.lend(size_bytes)
        assert len(lease.view) == size_bytes
        assert not lease.view.readonly
        lease.release()


async def test_what_was_given_back_is_lent_again(pool: BufferPool):
    first = await pool.lend(SIZE)
    first.view[:3] = b"abc"
    first.release()
    second = await pool.lend(SIZE)
    assert bytes(second.view[:3]) == b"abc"
    assert second.view.obj is first.view.obj
    second.release()


async def test_who_finds_no_memory_waits_for_it_in_turn(pool: BufferPool):
    leases = await lend_all(pool)
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(pool.lend(SIZE)) for _ in range(3)]
        await asyncio.sleep(0)
        assert pool.try_lend(1) is None
        for lease, waiter in zip(leases, waiting, strict=False):
            assert not waiter.done()
            lease.release()
            later = await waiter
            assert pool.lent_bytes == 4 * SIZE
            leases.append(later)
    for lease in leases[3:]:
        lease.release()
    assert pool.lent_bytes == 0


async def test_nobody_who_needs_little_overtakes_one_who_waits_for_much(pool: BufferPool):
    lease, rest = await pool.lend(SIZE), await pool.lend(2 * SIZE)
    async with asyncio.TaskGroup() as tasks:
        much = tasks.create_task(pool.lend(4 * SIZE))
        await asyncio.sleep(0)
        assert pool.try_lend(SIZE) is None  # though there is as much
        rest.release()
        await asyncio.sleep(0)
        assert not much.done()
        lease.release()
        (await much).release()


async def test_who_leaves_makes_way_for_those_behind(pool: BufferPool):
    small, rest = await pool.lend(SIZE), await pool.lend(2 * SIZE)
    async with asyncio.TaskGroup() as tasks:
        much = tasks.create_task(pool.lend(4 * SIZE))
        little = tasks.create_task(pool.lend(SIZE))
        await asyncio.sleep(0)
        assert not little.done()
        much.cancel()
        (await little).release()
    for lease in (small, rest):
        lease.release()
    assert pool.lent_bytes == 0
    assert pool.try_lend(4 * SIZE) is not None


async def test_memory_that_comes_to_one_who_just_left_is_not_lost(pool: BufferPool):
    leases = await lend_all(pool)
    async with asyncio.TaskGroup() as tasks:
        served = tasks.create_task(pool.lend(SIZE))
        await asyncio.sleep(0)
        leases[0].release()  # it has its lease now, and has not run yet
        served.cancel()
    async with asyncio.TaskGroup() as tasks:
        left = tasks.create_task(pool.lend(2 * SIZE))
        await asyncio.sleep(0)
        left.cancel()
        leases[1].release()  # it has left, and has not run yet
    assert pool.lent_bytes == 2 * SIZE
    assert pool.try_lend(2 * SIZE) is not None


async def test_a_buffer_larger_than_the_pool_is_lent_alone(pool: BufferPool):
    small = await pool.lend(1)
    async with asyncio.TaskGroup() as tasks:
        huge = tasks.create_task(pool.lend(8 * SIZE))
        await asyncio.sleep(0)
        assert not huge.done()
        small.release()
        lease = await huge
    assert pool.try_lend(1) is None
    lease.release()
    assert (pool.lent_bytes, pool.idle_bytes) == (0, 0)  # too large to be kept


async def test_a_lease_ends_once(pool: BufferPool):
    lease = await pool.lend(SIZE)
    lease.release()
    with pytest.raises(AssertionError):
        lease.release()


def test_not_more_lies_idle_than_is_worth_it():
    pool = BufferPool(4 * IDLE_BYTES_MAX)
    leases = [pool.try_lend(IDLE_BYTES_MAX // 2) for _ in range(4)]
    for lease in leases:
        assert lease is not None
        lease.release()
    assert (pool.lent_bytes, pool.idle_bytes) == (0, IDLE_BYTES_MAX)


@given(st.lists(st.integers(1, 6 * SIZE) | st.integers(-4, 0), max_size=30))
def test_the_bound_holds_whatever_is_asked_for_I3(wishes: list[int]):  # noqa: N802
    pool = BufferPool(4 * SIZE)
    leases: list[Lease] = []
    for wish in wishes:
        if wish > 0:
            lease = pool.try_lend(wish)
            leases += [] if lease is None else [lease]
        elif leases:
            leases.pop(wish % len(leases)).release()
        held = pool.lent_bytes + pool.idle_bytes
        assert held <= 4 * SIZE or (len(leases) == 1 and not pool.idle_bytes)
        assert pool.lent_bytes == sum(len(lease.view.obj) for lease in leases)
