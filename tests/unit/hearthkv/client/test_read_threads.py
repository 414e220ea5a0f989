"""Tests of hearthkv/client/read_threads.py."""

import asyncio
import threading

import pytest

from hearthkv.client.read_threads import ReadThreads
from hearthkv.core.errors import DirectPathError


async def test_work_is_done_in_another_thread():
    threads = ReadThreads(1)
    assert await threads.run(threading.get_ident) != threading.get_ident()
    threads.close()


async def test_what_goes_wrong_there_is_raised_here():
    def fail() -> None:
        raise FileNotFoundError

    threads = ReadThreads(1)
    with pytest.raises(FileNotFoundError):
        await threads.run(fail)
    threads.close()


async def test_who_is_cancelled_leaves_its_work_behind():
    threads, begun, release = ReadThreads(1), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        release.wait()

    hanging = asyncio.create_task(threads.run(hang))
    await asyncio.to_thread(begun.wait)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    release.set()
    assert await threads.run(lambda: 5) == 5
    threads.close()


@pytest.mark.parametrize("is_used", [True, False], ids=["used", "unused"])
async def test_closed_threads_do_nothing_more(is_used: bool):
    threads = ReadThreads(1)
    if is_used:
        await threads.run(lambda: None)
    threads.close()
    with pytest.raises(DirectPathError, match="client is closed"):
        await threads.run(lambda: None)
