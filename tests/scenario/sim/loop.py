"""
An event loop whose time is a `ManualClock`, and whose order of events is the same in every run.

Nothing waits: where no callback is ready, the clock leaps to the next one that is due. Tasks have
numbers and hash to them, so that sets of tasks have one order, whatever their addresses are.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any

from hearthkv.core.clock import ManualClock
from tests.scenario.sim.trace import Trace


class SimTask(asyncio.Task[Any]):
    """A task with a number."""

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, Any], **options: Any) -> None:
        self.number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimLoop(asyncio.BaseEventLoop):
    """
    The loop.

    Args:
        clock: Is set forward as time passes.
        trace: Where it says that an invariant is broken, the loop stops.
        on_task: Told of every task that is made.
    """

    def __init__(
        self, clock: ManualClock, trace: Trace, on_task: Callable[[SimTask], None]
    ) -> None:
        super().__init__()
        self.is_ending = False
        """Whether it only winds up what is left."""

        self._clock = clock
        self._trace = trace
        self._on_task = on_task
        self._numbers = itertools.count(1)
        self._selector = _Leap(clock)
        self.set_task_factory(self._new_task)
        self.set_exception_handler(self._note_neglect)

    def time(self) -> float:
        return self._clock.now()

    def _new_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        context: Context | None = None,
    ) -> SimTask:
        assert asyncio.iscoroutine(coroutine)
        task = SimTask(next(self._numbers), coroutine, loop=loop, context=context)
        if context is None:
            self._on_task(task)
        else:
            context.run(self._on_task, task)
        return task

    def _note_neglect(self, _: object, told: dict[str, Any]) -> None:
        """An error that nobody took care of is one that fails somebody."""
        if not self.is_ending and self._trace.failure is None:
            failure = self._trace.fail("I5", f"{told['message']}: {told.get('exception')!r}")
            failure.__cause__ = told.get("exception")

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        if self._trace.at_end_of_step and not self.is_ending:
            self._trace.end_step()
        if self._trace.failure is not None and not self.is_ending:
            self.stop()

    def _process_events(self, event_list: list[object]) -> None:
        """There are no sockets."""

    def _write_to_self(self) -> None:
        """There are no other threads."""


class _Leap:
    """In the place of a selector: lets time pass."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def select(self, timeout: float | None) -> list[object]:
        assert timeout is not None, "nothing will ever happen again"
        self._clock.advance(timeout)
        return []
