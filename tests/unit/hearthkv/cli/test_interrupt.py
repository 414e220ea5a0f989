"""A signal ends the work in order."""

import asyncio
import os
import signal

import pytest

from hearthkv.cli.interrupt import run_until_signalled


def test_work_that_ends_by_itself_has_its_result():
    async def work() -> int:
        return 7

    assert run_until_signalled(work()) == 7


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["shell", "background"])
def inherited_sigint(request: pytest.FixtureRequest):
    """What SIGINT does in a process of an interactive shell, or in the background of a script."""
    before = signal.signal(signal.SIGINT, request.param)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("inherited_sigint")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_work_close_what_it_opened(number: signal.Signals):
    did: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            did.append("closed")

    with pytest.raises(KeyboardInterrupt):
        run_until_signalled(work())
    assert did == ["closed"]
