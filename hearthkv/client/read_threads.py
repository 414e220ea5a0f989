"""
A few threads for reads that may hang in a disk. Not pure.

Who is cancelled while it waits leaves its read behind; the thread is free again when the disk
answers.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from hearthkv.core.errors import DirectPathError

Answer = TypeVar("Answer")


class ReadThreads:
    """
    Threads that are made when they are needed.

    Args:
        count: Reads under way at once; further ones wait.
    """

    def __init__(self, count: int) -> None:
        self.count: Final = count
        self._threads: ThreadPoolExecutor | None = None
        self._is_closed = False

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """
        Do something in a thread, and return or raise what it does.

        Raises:
            DirectPathError: If the threads are closed.
        """
        self.check_open()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.count, "hearthkv-read")
        return await asyncio.wrap_future(self._threads.submit(work))

    def check_open(self) -> None:
        """
        Say whether there is any use in going on, to who has much to do in a thread.

        Raises:
            DirectPathError: If the threads are closed.
        """
        if self._is_closed:
            raise DirectPathError("client is closed, must be open")

    def close(self) -> None:
        """Begin nothing more; what is under way is not waited for."""
        self._is_closed = True
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
