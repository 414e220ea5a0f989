"""Runs a coroutine so that SIGINT and SIGTERM end it in order. Touches this process' signals."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import TypeVar

Result = TypeVar("Result")


def run_until_signalled(work: Coroutine[None, None, Result]) -> Result:
    """
    Run `work`; the first SIGINT or SIGTERM cancels it, so that what it opened is closed.

    Raises:
        KeyboardInterrupt: If a signal ended it.
    """

    async def main() -> Result:
        task = asyncio.current_task()
        assert task is not None
        # asyncio.run sees to SIGINT only where it was not ignored before, as it is in the
        # background of a shell script.
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await work

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
